"""Due times become one run at most, and the others are missed or skipped."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from costguard.schedules.decide import MOST_RECORDED, decide
from costguard.schedules.schedule import Recurrence, Schedule, ScheduleState

DAILY = Recurrence("0 2 * * *", "UTC")
DUE = datetime(2026, 3, 9, 2, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SCHEDULE = Schedule(
    id="c1",
    name="nightly",
    owner="ada@lab.example",
    project="lab",
    preset="t4",
    recurrence=DAILY,
    overlaps=False,
    late=None,
    state=ScheduleState.ACTIVE,
    reason="",
    next_due=DUE,
    created_at=DUE - DAY,
    via="cli",
)


def test_nothing_follows_before_the_time() -> None:
    """The second before it is too early."""
    assert decide(SCHEDULE, (), DUE - timedelta(seconds=1)) is None
    assert decide(replace(SCHEDULE, state=ScheduleState.PAUSED), (), DUE) is None
    assert decide(replace(SCHEDULE, next_due=None), (), DUE) is None


def test_due_run_is_launched_and_the_next_day_is_next() -> None:
    """The turn may be a few seconds late."""
    decision = decide(SCHEDULE, (), DUE + timedelta(seconds=4))
    assert decision is not None
    assert (decision.launch, decision.missed, decision.next_due) == (DUE, (), DUE + DAY)


def test_late_run_is_launched_within_half_of_the_interval() -> None:
    """The next day is nearer after twelve hours."""
    in_time, too_late = (
        decide(SCHEDULE, (), DUE + 12 * HOUR),
        decide(SCHEDULE, (), DUE + 12 * HOUR + timedelta(seconds=1)),
    )
    assert in_time is not None
    assert too_late is not None
    assert (in_time.launch, in_time.missed) == (DUE, ())
    assert (too_late.launch, too_late.missed, too_late.next_due) == (None, (DUE,), DUE + DAY)


def test_owner_chooses_how_late_a_run_may_be() -> None:
    """The owner's limit holds also where it is longer than the interval."""
    short, long = replace(SCHEDULE, late=HOUR), replace(SCHEDULE, late=30 * HOUR)
    decision = decide(short, (), DUE + 2 * HOUR)
    assert decision is not None
    assert decision.missed == (DUE,)
    decision = decide(long, (), DUE + 23 * HOUR)
    assert decision is not None
    assert decision.launch == DUE


def test_of_several_due_times_the_newest_alone_is_launched() -> None:
    """Costguard was down for three days: nobody wants four trainings at once."""
    decision = decide(SCHEDULE, (), DUE + 3 * DAY + HOUR)
    assert decision is not None
    assert decision.launch == DUE + 3 * DAY
    assert decision.missed == (DUE, DUE + DAY, DUE + 2 * DAY)
    assert decision.next_due == DUE + 4 * DAY


def test_open_run_keeps_the_next_one_back_unless_runs_overlap() -> None:
    """It is skipped, and not launched once the other is over."""
    decision = decide(SCHEDULE, ("j1",), DUE)
    assert decision is not None
    assert (decision.launch, decision.skipped, decision.next_due) == (None, DUE, DUE + DAY)
    overlapping = decide(replace(SCHEDULE, overlaps=True), ("j1",), DUE)
    assert overlapping is not None
    assert (overlapping.launch, overlapping.skipped) == (DUE, None)


def test_long_outage_is_counted_and_not_recorded_one_by_one() -> None:
    """A year of a run every ten minutes is 52,560 due times: of these few are looked at, and the newest recorded."""
    often = replace(SCHEDULE, recurrence=Recurrence("*/10 * * * *", "UTC"))
    decision = decide(often, (), DUE + 10 * HOUR)
    assert decision is not None
    assert (len(decision.missed), decision.more_missed) == (60, 0)
    after_two_days = decide(often, (), DUE + 2 * DAY)
    assert after_two_days is not None
    assert (len(after_two_days.missed), after_two_days.more_missed) == (MOST_RECORDED, 188)
    after_a_year = decide(often, (), DUE + 365 * DAY)
    assert after_a_year is not None
    assert after_a_year.launch is None
    assert after_a_year.next_due == DUE + 365 * DAY + timedelta(minutes=10)


@given(st.lists(st.integers(1, 5 * 24 * 60), min_size=1, max_size=20), st.booleans())
def test_each_due_time_has_one_outcome_whenever_turns_come(minutes: list[int], overlaps: bool) -> None:
    """Turns after any numbers of minutes: what they launch, skip and miss together is each due time, in order, once."""
    schedule, now, seen = replace(SCHEDULE, overlaps=overlaps), DUE - HOUR, []
    for number in minutes:
        now += timedelta(minutes=number)
        decision = decide(schedule, ("j1",) if number % 2 else (), now)
        if decision is None:
            continue
        newest = decision.launch or decision.skipped
        seen += [*decision.missed, *([newest] if newest is not None else [])]
        schedule = replace(schedule, next_due=decision.next_due)
    assert seen == [DUE + day * DAY for day in range(len(seen))]
    assert schedule.next_due == DUE + len(seen) * DAY
    assert schedule.next_due > now
