"""The table of deliberate faults fits the present source, so that `make mutants` plants what it says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.mutants import faults
from tests.mutants.faults import Fault
from tests.mutants.planting import Caught, caught_by
from tests.simulation import invariants

ROOMS = {
    "accounts",
    "diagnosis",
    "access",
    "bill",
    "acting",
    "charging",
    "checkpoints",
    "deadlines",
    "doctor",
    "ends",
    "feed",
    "gang_jobs",
    "gangs",
    "keepers",
    "labels",
    "lease",
    "limits",
    "prices",
    "profiles",
    "progress",
    "queues",
    "recovery",
    "refusals",
    "report",
    "restores",
    "results",
    "retention",
    "schedules",
    "signatures",
    "stages",
    "sweeps",
    "timeline",
    "trackers",
    "unpriced",
    "vertex",
}


def test_every_fault_can_be_planted() -> None:
    """Each text to replace stands in its file exactly once, what comes of it is Python, and its test is there."""
    assert faults.problems(faults.read()) == []


def test_every_room_has_its_share() -> None:
    """The faults are at least 60, and six in each room; no fault is listed twice."""
    every = faults.read()
    by_room = Counter(fault.room for fault in every)
    assert set(by_room) == ROOMS
    assert min(by_room.values()) >= 6
    assert len(every) >= 60
    assert len({(fault.path, fault.before, fault.after) for fault in every}) == len(every)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"path": "policy/gone.py"}, "is not there"),
        ({"before": "no such line"}, "0 times"),
        ({"before": "import"}, "times, not once"),
        ({"after": "def :"}, "is no Python"),
        ({"after": "    return 1  # still"}, "means the same"),
        ({"test": "tests/policy/test_gone.py"}, "There is no tests/policy/test_gone.py."),
        ({"test": "tests/policy/test_x.py::test_gone"}, "has no test test_gone."),
    ],
)
def test_a_fault_that_no_longer_fits_is_reported(tmp_path: Path, given: dict[str, str], why: str) -> None:
    """Refactoring moves lines: the message says which fault must follow, and why it does not fit."""
    source = tmp_path / faults.PRODUCT / "policy" / "x.py"
    source.parent.mkdir(parents=True)
    source.write_text("import math\nimport sys\n\n\ndef one() -> int:\n    return 1\n")
    (tmp_path / "tests/policy").mkdir(parents=True)
    (tmp_path / "tests/policy/test_x.py").write_text("def test_one() -> None: ...\n")
    fits = {"path": "policy/x.py", "before": "    return 1", "after": "    return 2", "test": "tests/policy/test_x.py"}
    assert faults.problems([Fault("x", "one is two", **fits)], tmp_path) == []
    (problem,) = faults.problems([Fault("x", "one is two", **{**fits, **given})], tmp_path)
    assert why in problem


@pytest.mark.parametrize(("code", "caught"), [(0, Caught.NO), (1, Caught.YES), (2, Caught.BROKEN), (4, Caught.BROKEN)])
def test_only_a_test_that_fails_catches_a_fault(code: int, caught: Caught) -> None:
    """pytest ends with 1 where tests failed; a fault that keeps tests from being read proves nothing."""
    assert caught_by(code) is caught


def test_invariants_of_faults_are_those_of_simulated_lives() -> None:
    """A fault that concerns an invariant names a function of the simulation, so that lives with it can be judged."""
    named = {fault.invariant for fault in faults.read()} - {""}
    assert named <= set(vars(invariants))
    assert len(named) >= 6
