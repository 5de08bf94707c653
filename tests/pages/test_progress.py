"""Curves of a job's page, by what they say."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.api.rows import NOW

from costguard.jobs.reports.progress.progress import CurvePoint, JobCurve
from costguard.model.money import Money
from costguard.pages.job.progress import DrawnCurve, draw

HOUR = timedelta(hours=1)


def drawn(*values: float | None, cut: datetime | None = None) -> DrawnCurve | None:
    points = [CurvePoint(NOW + n * HOUR, "step", n, value, Money.of(n)) for n, value in enumerate(values)]
    return draw(JobCurve("loss", "loss", tuple(points)), [cut] if cut else [])


def test_a_curve_says_its_last_value_and_its_range() -> None:
    """A screen reader hears them too."""
    curve = drawn(3.0, 1.0, 2.0)
    assert curve is not None
    assert (curve.last, curve.lowest, curve.highest) == ("2", "1", "3")
    assert curve.words == "loss from 3 to 2, between 1 and 3."


def test_a_value_that_is_not_finite_breaks_the_line() -> None:
    """It has no place on it."""
    curve = drawn(3.0, 2.5, None, 2.0, 1.0)
    assert curve is not None
    assert len(curve.lines) == 2


def test_across_are_time_and_cost() -> None:
    """The labels are at the beginning, the middle and the end."""
    curve = drawn(3.0, 2.0, 1.0)
    assert curve is not None
    assert [(one.span, one.cost) for one in curve.labels] == [
        ("0", Money.of(0)),
        ("1 h", Money.of(1)),
        ("2 h", Money.of(2)),
    ]


def test_interruptions_are_marked_where_they_happened() -> None:
    """The mark is in the middle of two hours; an interruption before the first value is left out."""
    curve, before = drawn(3.0, 2.0, 1.0, cut=NOW + HOUR), drawn(3.0, 2.0, cut=NOW - HOUR)
    assert curve is not None
    assert before is not None
    assert (curve.marks, before.marks) == ([500], [])


def test_one_value_is_no_curve() -> None:
    """A level that never was a number is no curve either."""
    assert drawn(3.0) is None
    assert drawn(None, None) is None
