"""Times of schedules: what `--every` means, and the due times over both changes of the clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.schedules.recurrence import LEAST_INTERVAL, WrongRecurrence, due_times, in_words, next_due, recurrence
from costguard.schedules.schedule import Recurrence

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def some(cron: str, zone: str, after: str, count: int) -> list[str]:
    """Returns the first due times, in the zone's own clock with its offset."""
    start = datetime.fromisoformat(after).replace(tzinfo=UTC)
    times = islice(due_times(Recurrence(cron, zone), start), count)
    return [due.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M %z") for due in times]


@pytest.mark.parametrize(
    ("every", "at", "cron", "words"),
    [
        ("day", "02:00", "0 2 * * *", "at 02:00 every day (UTC)"),
        ("day", "", "0 0 * * *", "at 00:00 every day (UTC)"),
        ("Weekday", "2:30", "30 2 * * 1-5", "at 02:30 on Monday through Friday (UTC)"),
        ("month", "04:00", "0 4 1 * *", "at 04:00 on the first day of every month (UTC)"),
        ("hour", "", "0 * * * *", "at the start of every hour (UTC)"),
        ("6h", "01:15", "15 1,7,13,19 * * *", "at 01:15, 07:15, 13:15, and 19:15 every day (UTC)"),
        ("friday, monday", "9:00", "0 9 * * 1,5", "at 09:00 on Monday and Friday (UTC)"),
    ],
)
def test_intervals_become_fields_of_cron(every: str, at: str, cron: str, words: str) -> None:
    """The words are what pages and messages show."""
    made = recurrence(every, at, "", "UTC")
    assert made.cron == cron
    assert in_words(made) == words


@pytest.mark.parametrize(
    ("options", "part", "words"),
    [
        (("", "", "", "UTC"), "every", "Give either --every"),
        (("day", "", "0 2 * * *", "UTC"), "every", "Give either --every"),
        (("", "02:00", "0 2 * * *", "UTC"), "at", "leave --at out"),
        (("week", "", "", "UTC"), "every", "'week' is no interval"),
        (("5h", "", "", "UTC"), "every", "cannot be divided by 5 hours"),
        (("0h", "", "", "UTC"), "every", "cannot be divided by 0 hours"),
        (("day", "25:00", "", "UTC"), "at", "no time of a day"),
        (("day", "", "", "Mars/Olympus"), "time_zone", "no time zone"),
        (("day", "", "", "../../etc/passwd"), "time_zone", "no time zone"),
        (("day", "", "", ""), "time_zone", "no time zone"),
        (("", "", "0 2 * *", "UTC"), "cron", "five fields"),
        (("", "", "0 0 2 * * *", "UTC"), "cron", "five fields"),
        (("", "", "0 99 * * *", "UTC"), "cron", "cannot be read"),
        (("", "", "0 0 30 2 *", "UTC"), "cron", "cannot be read"),
        (("", "", "1 1 1 1 MON#1/2", "UTC"), "cron", "cannot be read"),
        (("", "", "* * * * *", "UTC"), "cron", "10 min are the least"),
        (("", "", "0,5 2 * * *", "UTC"), "cron", "10 min are the least"),
        (("", "", "0 2 * * " + ",".join("1" * 150), "UTC"), "cron", "five fields"),
    ],
)
def test_wrong_times_are_refused_with_what_to_change(options: Sequence[str], part: str, words: str) -> None:
    """The refusal names the option."""
    with pytest.raises(WrongRecurrence, match=words) as refused:
        recurrence(*options)
    assert refused.value.part == part


def test_time_that_the_clock_skips_comes_right_after_the_change() -> None:
    """Debian's cron does so: "those jobs that would have run in the time that has disappeared will be run soon after
    the change" (cron(8)). New York's clock goes from 02:00 to 03:00 on 8 March 2026, Berlin's on 29 March.
    """
    assert some("30 2 * * *", NEW_YORK, "2026-03-07T00:00", 3) == [
        "03-07 02:30 -0500",
        "03-08 03:00 -0400",
        "03-09 02:30 -0400",
    ]
    assert some("0 2 * * *", BERLIN, "2026-03-28T12:00", 2) == ["03-29 03:00 +0200", "03-30 02:00 +0200"]


def test_time_that_the_clock_shows_twice_comes_once() -> None:
    """Cron(8): "jobs that would run twice are run once". New York's second 01:30 of 1 November 2026 is no due time,
    also for a beginning within that hour.
    """
    assert some("30 1 * * *", NEW_YORK, "2026-10-31T12:00", 2) == ["11-01 01:30 -0400", "11-02 01:30 -0500"]
    within_the_second = "2026-11-01T06:10"  # 01:10 EST
    assert some("30 1 * * *", NEW_YORK, within_the_second, 1) == ["11-02 01:30 -0500"]


def test_several_times_in_a_skipped_hour_are_one() -> None:
    """Two runs at the same moment would be launched twice."""
    assert some("0,30 2 * * *", NEW_YORK, "2026-03-08T00:00", 3) == [
        "03-08 03:00 -0400",
        "03-09 02:00 -0400",
        "03-09 02:30 -0400",
    ]


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo", "UTC"])
@pytest.mark.parametrize("at", ["00:00", "01:30", "02:00", "02:30", "03:00"])
def test_year_of_days_has_each_local_day_once(zone: str, at: str) -> None:
    """Every day of 2026 has one run, at its time or, where the clock skips that, within the hour after."""
    made, start = recurrence("day", at, "", zone), datetime(2025, 12, 31, 12, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    local = [due.astimezone(ZoneInfo(zone)) for due in islice(due_times(made, start), 365)]
    assert [moment.timetuple().tm_yday for moment in local] == list(range(1, 366))
    late = [moment for moment in local if f"{moment:%H:%M}" != at]
    assert len(late) <= 1
    assert all(moment.minute == 0 or zone == "Australia/Lord_Howe" for moment in late)


@given(
    cron=st.sampled_from(["30 1 * * *", "0,30 2 * * *", "*/15 * * * *", "0 1,2,3 * * *", "10 */6 * * *", "0 0 31 * *"]),
    zone=st.sampled_from([BERLIN, NEW_YORK, "Australia/Lord_Howe"]),
    minutes=st.integers(0, 366 * 24 * 60),
)
def test_due_times_rise_and_begin_after_the_moment(cron: str, zone: str, minutes: int) -> None:
    """The moment is any minute of a year, and each next time is what a new beginning at the last would give."""
    made, after = Recurrence(cron, zone), datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    times = list(islice(due_times(made, after), 6))
    assert times[0] > after
    assert all(later > earlier for earlier, later in pairwise(times))
    assert [next_due(made, one) for one in times[:-1]] == times[1:]


@pytest.mark.parametrize("cron", ["0 0 29 2 */7", "0 0 * 2 1#5", "0 0 29 2 *"])
def test_times_that_come_once_in_many_years_are_allowed(cron: str) -> None:
    """A leap year's day that is a Sunday comes every 28 years; nothing looks further than a few of them."""
    made = recurrence("", "", cron, "America/New_York")
    first = next_due(made, datetime(2026, 1, 1, tzinfo=UTC))
    assert first is not None
    assert first.year <= 2052


def test_least_interval_is_allowed() -> None:
    """Every ten minutes is the most."""
    made = recurrence("", "", "*/10 * * * *", "UTC")
    first, second = islice(due_times(made, datetime(2026, 1, 1, tzinfo=UTC)), 2)
    assert second - first == LEAST_INTERVAL
