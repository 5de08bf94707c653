"""When digests are due, in every time zone and across clock changes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costguard.messages.digest_schedule import DigestRule, DueDigest, Every, due

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
EVER = datetime(2020, 1, 1, tzinfo=UTC)
BERLIN = DigestRule(time(9), time(9, 30), 0, "Europe/Berlin")

rules = st.builds(
    DigestRule,
    daily_at=st.times().map(lambda at: at.replace(second=0, microsecond=0)),
    weekly_at=st.times().map(lambda at: at.replace(second=0, microsecond=0)),
    weekday=st.integers(0, 6),
    time_zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati", "Pacific/Apia"]
    ),
)
moments = st.timedeltas(timedelta(), timedelta(days=700)).map(lambda later: datetime(2026, 1, 1, tzinfo=UTC) + later)


def all_of(rule: DigestRule, start: datetime, days: int) -> list[DueDigest]:
    """Returns the digests that a look every 20 minutes meets, each once."""
    result = {item.key: item for step in range(days * 72) for item in due(rule, EVER, start + step * HOUR / 3)}
    return list(result.values())


def keys(rule: DigestRule, now: datetime, since: datetime | None = EVER) -> list[str]:
    return [item.key for item in due(rule, since, now)]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-11-20T07:59", []),  # yesterday's was too late twelve hours ago
        ("2026-11-20T08:00", ["digest/daily/2026-11-20"]),
        ("2026-11-20T19:59", ["digest/daily/2026-11-20"]),
        ("2026-11-20T20:00", []),
        ("2026-11-23T08:00", ["digest/daily/2026-11-23"]),
        ("2026-11-23T08:30", ["digest/daily/2026-11-23", "digest/weekly/2026-11-23"]),
        ("2026-11-25T07:00", ["digest/weekly/2026-11-23"]),
    ],
)
def test_each_is_due_at_its_local_time(now: str, expected: list[str]) -> None:
    """Nine in Berlin is eight in winter; the weekly comes on its weekday, and neither is good for ever."""
    assert keys(BERLIN, datetime.fromisoformat(now).replace(tzinfo=UTC)) == expected


def test_days_are_those_of_the_ledger() -> None:
    """The daily tells of yesterday and the weekly of the seven days before, each a whole UTC day."""
    daily, weekly = due(BERLIN, EVER, datetime(2026, 11, 23, 9, tzinfo=UTC))
    assert (daily.first, daily.last) == (date(2026, 11, 22), date(2026, 11, 22))
    assert (weekly.first, weekly.last) == (date(2026, 11, 16), date(2026, 11, 22))


def test_where_yesterday_is_not_over_yet_it_is_the_day_before() -> None:
    """Nine in Sydney is ten in the evening of the UTC day before."""
    (daily,) = due(DigestRule(time_zone="Australia/Sydney"), EVER, datetime(2026, 11, 19, 22, tzinfo=UTC))
    assert (daily.key, daily.last) == ("digest/daily/2026-11-20", date(2026, 11, 18))


def test_after_an_outage_only_the_latest_is_due() -> None:
    """Ten days of silence are followed by one daily and one weekly digest."""
    assert keys(BERLIN, datetime(2026, 11, 24, 12, tzinfo=UTC)) == [
        "digest/daily/2026-11-24",
        "digest/weekly/2026-11-23",
    ]


def test_a_new_installation_has_no_backlog() -> None:
    """A digest that came due before the first look at any project has nothing to tell."""
    noon = datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert keys(BERLIN, noon, None) == []
    assert keys(BERLIN, noon, noon - HOUR) == []
    assert keys(BERLIN, noon + DAY, noon - HOUR) == ["digest/daily/2026-11-24"]


def test_what_is_off_is_never_due() -> None:
    """Either can be switched off by itself."""
    monday = datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert keys(DigestRule(daily_at=None), monday) == ["digest/weekly/2026-11-23"]
    assert keys(DigestRule(weekly_at=None), monday) == ["digest/daily/2026-11-23"]


@pytest.mark.parametrize("changes", ["2026-03-29", "2026-10-25"])
@pytest.mark.parametrize("at", ["00:30", "01:30", "02:30", "03:00"])
def test_a_clock_change_neither_repeats_nor_leaves_out_a_day(changes: str, at: str) -> None:
    """The digest comes also at a local time that does not exist that day, or exists twice."""
    start = datetime.fromisoformat(changes).replace(tzinfo=UTC) - 2 * DAY
    result = all_of(DigestRule(time.fromisoformat(at), None, 0, "Europe/Berlin"), start, 5)
    days = sorted(item.last for item in result)
    assert len(result) >= 5
    assert days == [days[0] + back * DAY for back in range(len(days))]


@settings(max_examples=30, deadline=None)  # each looks a thousand times
@given(rules, moments)
def test_each_day_and_each_week_has_one_digest(rule: DigestRule, start: datetime) -> None:
    """The keys are never reused in any zone, and the days they tell of follow on each other without a gap."""
    result = all_of(rule, start, 16)
    for every, step in ((Every.DAILY, DAY), (Every.WEEKLY, 7 * DAY)):
        mine = sorted((item for item in result if item.every is every), key=lambda item: item.due_at)
        assert len(mine) >= 16 // step.days
        assert [item.last - mine[0].last for item in mine] == [back * step for back in range(len(mine))]
        assert all(item.last - item.first == step - DAY for item in mine)


@given(rules, moments)
def test_what_is_told_of_is_over(rule: DigestRule, now: datetime) -> None:
    """A digest tells of whole days, and is due at its local time or, where that does not exist, within the hour."""
    for item in due(rule, EVER, now):
        assert datetime.combine(item.last + DAY, time(), UTC) <= item.due_at <= now < item.good_until
        local = item.due_at.astimezone(ZoneInfo(rule.time_zone))
        at = rule.daily_at if item.every is Every.DAILY else rule.weekly_at
        assert at is not None
        assert abs(datetime.combine(local.date(), at) - local.replace(tzinfo=None)) <= HOUR
