"""Decides when digests are due: a daily and a weekly one, at a local time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)


class Every(StrEnum):
    DAILY = "daily"
    WEEKLY = "weekly"


# A digest that could not be sent for this long is dropped: the next one is more recent.
_GOOD_FOR = {Every.DAILY: timedelta(hours=12), Every.WEEKLY: timedelta(days=3)}


@dataclass(frozen=True, slots=True)
class DigestRule:
    """The local time of each digest; None: never. `weekday` 0 is Monday."""

    daily_at: time | None = time(9)
    weekly_at: time | None = time(9)
    weekday: int = 0
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class DueDigest:
    """A digest of the UTC days from `first` to `last`, as the ledger counts days."""

    every: Every
    key: str
    due_at: datetime
    good_until: datetime
    first: date
    last: date


def due(rule: DigestRule, watched_since: datetime | None, now: datetime) -> list[DueDigest]:
    """The latest of digest kind that came due, if it is still worth sending. Those before it are not made up for.

    `watched_since` is the first look at any project: what was due before it has nothing to tell.
    """
    latest = (_latest(rule, Every.DAILY, rule.daily_at, now), _latest(rule, Every.WEEKLY, rule.weekly_at, now))
    return [
        digest
        for digest in latest
        if digest is not None
        and now < digest.good_until
        and watched_since is not None
        and watched_since < digest.due_at
    ]


def _latest(rule: DigestRule, every: Every, at: time | None, now: datetime) -> DueDigest | None:
    if at is None:
        return None
    zone = ZoneInfo(rule.time_zone)
    for day in _days_back(now.astimezone(zone).date()):
        due_at = datetime.combine(day, at, zone).astimezone(UTC)
        if due_at <= now and (every is Every.DAILY or day.weekday() == rule.weekday):
            last = day - (_DAY if _is_over(at, zone, day.year) else 2 * _DAY)
            first = last if every is Every.DAILY else last - 6 * _DAY
            return DueDigest(every, f"digest/{every.value}/{day}", due_at, due_at + _GOOD_FOR[every], first, last)
    return None


def _days_back(today: date) -> Iterator[date]:
    """A week of weekdays, and one more: today's may be due later today."""
    return (today - back * _DAY for back in range(8))


def _is_over(at: time, zone: tzinfo, year: int) -> bool:
    """Says whether yesterday's UTC day is over by then all year long: else a clock change would leave out a day."""
    offsets = [datetime(year, month, 1, tzinfo=zone).utcoffset() or timedelta() for month in (1, 7)]
    return timedelta(hours=at.hour, minutes=at.minute, seconds=at.second) >= max(offsets)
