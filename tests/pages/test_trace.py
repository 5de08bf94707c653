"""The line of the last day on the page Now."""

from __future__ import annotations

from datetime import timedelta

from tests.api.rows import NOW

from costguard.model.money import Money
from costguard.pages.charts import trace
from costguard.spend.burning import STEP, BurnHistory


def test_the_line_is_level_between_changes_and_ends_with_now() -> None:
    """Each mark's rate holds until the next; the peak touches the top, nothing the ground."""
    since = NOW - 3 * STEP
    drawn = trace(BurnHistory(since, (Money(0), Money(8), Money(8))), Money(4), NOW)
    assert drawn is not None
    assert drawn.line == "0,64 333,64 333,2 666,2 1000,2 1000,33"
    assert drawn.area == "0,64 0,64 333,64 333,2 666,2 1000,2 1000,33 1000,64"
    assert (drawn.peak, drawn.peak_at) == (Money(8), since + STEP)


def test_the_present_may_be_the_peak() -> None:
    """The starts since the last mark are in it."""
    drawn = trace(BurnHistory(NOW - STEP, (Money(1), Money(1))), Money(9), NOW + timedelta(minutes=5))
    assert drawn is not None
    assert (drawn.peak, drawn.peak_at) == (Money(9), NOW + timedelta(minutes=5))
    assert drawn.line.endswith("1000,2")


def test_nothing_is_drawn_of_nothing() -> None:
    """No marks, or none with a cost: no line."""
    assert trace(BurnHistory(NOW, ()), Money(5), NOW) is None
    assert trace(BurnHistory(NOW - STEP, (Money(), Money())), Money(), NOW) is None
