"""A fleet's own history: what counts for a zone's hazards, and what a recorded series of it says."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from costguard.deadlines.hazards import SeenPeriod, counts_of
from costguard.deadlines.history import SpotRun, ZoneHistory, periods_of, series_of_history


def test_runs_are_up_until_they_are_preempted() -> None:
    """A VM that its owner stopped, or that still runs, was not preempted: it was seen no longer."""
    runs = (SpotRun(1, 3, is_preempted=True), SpotRun(4, 5), SpotRun(8, None))
    assert periods_of(ZoneHistory(runs), 10) == [
        SeenPeriod(True, 1, 3),
        SeenPeriod(True, 4, 5, is_cut=True),
        SeenPeriod(True, 8, 10, is_cut=True),
    ]
    counts = counts_of(periods_of(ZoneHistory(runs), 10), 10)
    assert (sum(counts.preemptions), sum(counts.up_hours)) == (1, 5)


def test_an_outage_lasts_from_the_first_refusal_to_the_next_vm() -> None:
    """The requests follow closely; a preemption shortly before began it."""
    assert list(periods_of(ZoneHistory((SpotRun(4, 5),), (3, 3.5)), 3.75))[-1:] == [
        SeenPeriod(False, 3, 3.5, is_cut=True)
    ]
    recovered = ZoneHistory((SpotRun(1, 2.75, is_preempted=True), SpotRun(4, 5)), (3, 3.5))
    assert SeenPeriod(False, 2.75, 4) in periods_of(recovered, 6)
    assert not any(period.is_up is False for period in periods_of(ZoneHistory((), (3,)), 6))


def test_nobody_looked_is_not_seen() -> None:
    """Hours after the last refusal the zone may have recovered long ago: the outage is cut at the last refusal."""
    rare = ZoneHistory((SpotRun(9, 10),), (3, 3.5, 7, 7.5))
    assert [period for period in periods_of(rare, 12) if not period.is_up] == [
        SeenPeriod(False, 3, 3.5, is_cut=True),
        SeenPeriod(False, 7, 7.5, is_cut=True),
    ]


def test_an_earlier_preemption_began_no_later_outage() -> None:
    """A VM that could be had in between says that the zone had come back."""
    between = ZoneHistory((SpotRun(1, 2, is_preempted=True), SpotRun(2.25, 2.5)), (2.75, 3))
    assert [period for period in periods_of(between, 6) if not period.is_up] == [
        SeenPeriod(False, 2.75, 3, is_cut=True)
    ]


def test_a_series_holds_what_was_seen_last() -> None:
    """Up while a VM runs and after one that was given up; out after a preemption or a stockout."""
    history = ZoneHistory((SpotRun(0, 2), SpotRun(5, 6, is_preempted=True), SpotRun(7, None)), (4,))
    series = series_of_history(history, 0, 8, 0.5)
    assert series.ups == [1] * 8 + [0] * 2 + [1] * 2 + [0] * 2 + [1] * 3
    assert series.seen == 16  # all but that at 3.5 h, between a VM's end at 2 h and the stockout at 4 h


def test_a_series_begins_as_the_first_that_was_seen() -> None:
    """The time before it is unknown: the other zones of the kind may have been seen earlier."""
    assert series_of_history(ZoneHistory((), (2,)), 0, 4, 1).ups == [0] * 5
    assert series_of_history(ZoneHistory((SpotRun(2, 3),)), 0, 4, 1).ups == [1] * 5


hours = st.integers(0, 400).map(lambda quarter: quarter / 4)
run = st.builds(
    lambda at, span, cut: SpotRun(at, None if span is None else at + span, cut), hours, st.none() | hours, st.booleans()
)
histories = st.builds(
    lambda runs, stockouts: ZoneHistory(sorted(runs, key=lambda one: one.began_h), sorted(stockouts)),
    st.lists(run, max_size=8),
    st.lists(hours, max_size=12),
)


@given(histories, hours)
def test_what_lies_later_is_never_seen(history: ZoneHistory, now_h: float) -> None:
    """Periods have a length and end by now, outages do not overlap, and there are no more events than were seen."""
    periods = periods_of(history, now_h)
    assert all(period.began_h < period.ended_h <= now_h for period in periods)
    outages = sorted(period[1:3] for period in periods if not period.is_up)
    assert all(one[1] <= other[0] for one, other in pairwise(outages))
    lost = sum(one.is_preempted and one.ended_h is not None and one.ended_h <= now_h for one in history.runs)
    assert sum(period.is_up and not period.is_cut for period in periods) <= lost
    assert sum(not period.is_up and not period.is_cut for period in periods) <= len(history.runs)


@given(histories)
def test_a_series_is_up_wherever_a_vm_ran(history: ZoneHistory) -> None:
    """The series has one point each quarter of an hour, none missing."""
    series = series_of_history(history, 0, 100, 0.25)
    assert len(series.ups) == 401
    assert set(series.ups) <= {0, 1}
    assert 0 <= series.seen <= 401
    for one in history.runs:
        end = 100 if one.ended_h is None else min(100, one.ended_h)
        assert all(series.ups[int(4 * one.began_h) : int(4 * end)])
