"""Moments formatted in the reader's time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_WEEKDAY_SAYS_IT = timedelta(days=3)  # beyond, pages could not tell which Tuesday is meant


def zone_of(name: str, otherwise: str = "UTC") -> ZoneInfo:
    """The zone of this name; where Slack tells one that this machine does not know, the other one."""
    try:
        return ZoneInfo(name or otherwise)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo(otherwise)


def moment_text(moment: datetime, zone: tzinfo = UTC, now: datetime | None = None, with_zone: bool = True) -> str:
    """`Tue 3 Nov 09:00 UTC`; without its date where that Tuesday is less than three days from `now`."""
    here = moment.astimezone(zone)
    day = "%a" if now is not None and abs(moment - now) < _WEEKDAY_SAYS_IT else "%a %-d %b"
    return here.strftime(f"{day} %H:%M %Z" if with_zone else f"{day} %H:%M")


def clock_text(moment: datetime, now: datetime) -> str:
    """`14:05 UTC`, with its day unless that is today."""
    here = moment.astimezone(UTC)
    return f"{here:%H:%M} UTC" if here.date() == now.astimezone(UTC).date() else moment_text(moment, UTC, now)


def utc_text(moment: datetime) -> str:
    """`2026-11-20 12:00 UTC`, for what may be of another year."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def z_text(moment: datetime) -> str:
    """Returns an aware moment in UTC, as RFC 3339 with a Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


@lru_cache(maxsize=1024)  # many spans, few days
def day_start(day: date) -> datetime:
    """Returns the midnight in UTC at which the day begins."""
    return datetime.combine(day, time(), UTC)
