"""Files for speedscope are as its own schema has them; tests/browser/test_profile.py has its own page open one."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
from tests.pages import profile_story
from tests.profile.recordings import profile_of

from costguard.jobs.decide.profile.speedscope import speedscope
from costguard_vm.profile.frames import Frame, Stack
from costguard_vm.profile.window import StackGroup, StackProfile

_SCHEMA = json.loads((Path(__file__).parent / "speedscope" / "schema.json").read_text())


@pytest.mark.parametrize("name", ["rows_iloc", "validation_csv"])
def test_file_is_valid_by_speedscopes_schema(name: str) -> None:
    """The schema is the one that the npm package carries."""
    document = speedscope(profile_of(name).stacks, "resnet")

    assert [str(error) for error in jsonschema_rs.validator_for(_SCHEMA).iter_errors(document)] == []


def test_each_group_is_a_profile_whose_weights_are_its_seconds() -> None:
    """Two workers in ten seconds make twenty."""
    main, workers = speedscope(profile_story.slow(), "resnet")["profiles"]

    assert (main["name"], sum(main["weights"])) == ("main thread", pytest.approx(10))
    assert (workers["name"], sum(workers["weights"])) == ("loader workers", pytest.approx(20))


def test_looks_at_rare_stacks_are_not_lost() -> None:
    """They are one function more, so that shares stay right."""
    stack: Stack = (Frame("f", "a.py", 3, is_own=True),)
    document = speedscope(StackProfile(10.0, 0.1, StackGroup(100, 40, {stack: (60, 60)})), "resnet")

    (profile,) = document["profiles"]
    assert document["shared"]["frames"][profile["samples"][1][0]]["name"] == "(stacks too rare to keep)"
    assert profile["weights"] == [6.0, 4.0]
