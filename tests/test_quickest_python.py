"""The interpreter of a new environment: measured, and another than the first only where it is clearly quicker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.quickest_python import named, quickest, seconds_of


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH of interpreters that only say how long they take. The third cannot make an environment."""
    for name, answer in {"slow": "echo 0.100", "like": "echo 0.096", "lacks": "exit 1", "quick": "echo 0.080"}.items():
        place = tmp_path / name / "python3.11"
        place.parent.mkdir()
        place.write_text(f"#!/bin/sh\n{answer}\n")
        place.chmod(0o755)
    return os.pathsep.join(str(tmp_path / name) for name in ("slow", "like", "lacks", "none", "quick"))


def test_a_clearly_quicker_build_is_taken(path: str) -> None:
    """Wherever on the PATH it is."""
    assert [Path(place).parent.name for place in named("python3.11", path)] == ["slow", "like", "lacks", "quick"]
    assert Path(quickest(named("python3.11", path))).parent.name == "quick"


def test_the_first_stays_where_others_are_no_quicker(path: str) -> None:
    """A few hundredths are the same build, measured twice."""
    assert Path(quickest(named("python3.11", path)[:3])).parent.name == "slow"


def test_one_that_can_make_no_environment_is_passed_over(path: str) -> None:
    """Where none can, the first is named, and `make` says what it lacks."""
    slow, like, lacks, _ = named("python3.11", path)
    assert Path(quickest([lacks, like])).parent.name == "like"
    assert quickest([lacks]) == lacks
    assert Path(quickest([slow, lacks])).parent.name == "slow"


def test_a_real_interpreter_is_measured() -> None:
    """A program that is not there has no time."""
    seconds = seconds_of(sys.executable)
    assert seconds is not None
    assert 0 < seconds < 60
    assert seconds_of("/no/such/python") is None
