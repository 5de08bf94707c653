"""Settings of limits on what is in use at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.settings.reading import read, refused

from costguard.model.budget import FleetLimit, LimitPart, Scope
from costguard.model.money import Money

GOOD = '[watch]\nprojects = ["ml-training"]\n'


def test_limits(tmp_path: Path) -> None:
    """A limit counts everything or a scope, all together or each value by itself, in exact dollars."""
    text = (
        "[limits.all]\ngpus = 64\n[limits.one]\nscope = { preset = 'a100', owner = 'ana@example.com' }\nvms = 2\n"
        "counts = 'jobs'\n[limits.each]\nfor_each = 'owner'\ndollars_per_hour = '39.50'\n"
    )
    every, one, own = read(tmp_path, GOOD + text).rules().fleet_limits
    assert every == FleetLimit("all", Scope(), gpus=64)
    assert (one.scope.preset, one.vms, one.counts_others) == ("a100", 2, False)
    assert (own.for_each, own.dollars_per_hour) == (LimitPart.OWNER, Money.of("39.50"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[limits.x]\nfor_each = 'owner'\n", "at least one of vms, gpus and dollars_per_hour"),
        ("[limits.x]\nvms = 1\nscope = { team = 'nobody' }\n", "expected a team"),
        ("[limits.x]\nvms = 1\nscope = { preset = 'nothing' }\n", "expected a preset"),
        ("[limits.x]\nvms = -1\n", "limits.x.vms"),
        ("[limits.x]\ndollars_per_hour = 9.5\n", 'did you mean "9.5"?'),
        ("[limits.x]\nvms = 1\nfor_each = 'job'\n", "limits.x.for_each"),
    ],
    ids=["nothing", "team", "preset", "negative", "float", "part"],
)
def test_wrong_limits_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    """Each mistake is named with its key and what is expected."""
    assert expected in refused(tmp_path, GOOD + text).message
