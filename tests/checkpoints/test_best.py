"""The best checkpoint by a metric: values by step, notes, and what is deleted."""

from __future__ import annotations

import random

import pytest

from costguard_vm.checkpoints.best import MOST_EVALUATIONS, Best, Evaluations, KnownValues, to_delete


def evaluations(*rows: tuple[int, float]) -> Evaluations:
    made = Evaluations()
    for step, value in rows:
        made.add(step, value)
    return made


def test_value_is_of_the_last_evaluation_that_was_not_later() -> None:
    """A checkpoint has nothing of what was learned after it."""
    made = evaluations((100, 3.0), (200, 2.0), (300, 1.0))
    assert [made.at(step) for step in (99, 100, 199, 200, 1000)] == [None, 3.0, 3.0, 2.0, 1.0]


def test_run_that_goes_back_forgets_what_came_after() -> None:
    """The model of those steps is gone; a value that is no number is no evaluation."""
    made = evaluations((100, 3.0), (200, 2.0), (300, 1.0), (150, 2.5), (160, float("nan")))
    assert [made.at(step) for step in (120, 155, 400)] == [3.0, 2.5, 2.5]


def test_memory_is_bounded() -> None:
    """The oldest are forgotten first."""
    made = evaluations(*((step, float(step)) for step in range(MOST_EVALUATIONS + 2)))
    assert made.at(1) is None
    assert made.at(2) == 2.0


@pytest.mark.parametrize(("better", "name"), [("lower", "b"), ("higher", "a")])
def test_best_is_by_the_metrics_own_direction(better: str, name: str) -> None:
    """The earliest is the best of equal values, and one without a value is never it."""
    values = KnownValues(better)
    steps = {"a": 100, "b": 200, "c": 300, "d": 10}
    assert values.best() is None
    assert values.learn(steps, evaluations((100, 3.0), (200, 1.0), (300, 1.0)), steps)
    assert not values.learn(steps, evaluations((100, 3.0), (200, 1.0), (300, 1.0)), steps)
    best = values.best()
    assert best is not None
    assert best.name == name


def test_note_brings_values_to_the_next_run() -> None:
    """The note counts for those that are still there, and for the same direction."""
    values = KnownValues("lower")
    values.learn({"a": 100, "b": 200}, evaluations((100, 1.0), (200, 2.0)), ("a", "b"))
    later = KnownValues("lower")
    later.read(values.note(), {"a", "b"})
    assert later.best() == Best("a", 100, 1.0)
    later.learn({"a": 100, "b": 200, "c": 300}, evaluations((300, 1.5)), ("c",))
    assert later.best() == Best("a", 100, 1.0)
    later.forget("a")
    assert later.best() == Best("c", 300, 1.5)
    gone = KnownValues("lower")
    gone.read(values.note(), {"b"})
    assert gone.best() == Best("b", 200, 2.0)
    other = KnownValues("higher")
    other.read(values.note(), {"a", "b"})
    assert other.best() is None


@pytest.mark.parametrize(
    "note", [b"", b"\xff", b"[]", b'{"better": "lower"}', b'{"better": "lower", "values": {"a": 1}}']
)
def test_note_that_cannot_be_read_says_nothing(note: bytes) -> None:
    """It may be of a later version, or torn."""
    values = KnownValues("lower")
    values.read(note, {"a"})
    assert values.best() is None


@pytest.mark.parametrize("seed", range(10))
def test_best_is_never_deleted(seed: int) -> None:
    """The best stays, however many are kept."""
    chance = random.Random(seed)
    keep = chance.randrange(0, 4)
    names = [str(number) for number in range(20, 0, -1)]
    best = chance.choice(names)
    gone = to_delete(names, keep, {best, ""})
    assert best not in gone
    assert len(names) - len(gone) in ((20,) if keep == 0 else (keep, keep + 1))
