"""The month that a GiB-month is divided by.

Recorded rows prove it: a disk of May 2024 is divided by 2,678,400 s (31 days), one of a March by 2,674,800 s (743
hours: a local month with the hour that daylight saving takes). That the local time is Google's own, US Pacific, is
what its example queries for the export say: they cut invoices by "US/Pacific".
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

_BILLING_TIME = ZoneInfo("America/Los_Angeles")


def month_of(moment: datetime) -> tuple[datetime, datetime]:
    """The calendar month in US Pacific time that a moment lies in: its first instant and the first after it, in UTC."""
    local = moment.astimezone(_BILLING_TIME)
    return _edges(local.year, local.month)


def seconds_of_month(moment: datetime) -> int:
    """2,419,200 in most Februaries; 2,674,800 in March and 2,595,600 in November, where daylight saving changes."""
    first, following = month_of(moment)
    return int((following - first).total_seconds())


@lru_cache(maxsize=256)
def _edges(year: int, month: int) -> tuple[datetime, datetime]:
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    first, after = (datetime(*start, 1, tzinfo=_BILLING_TIME).astimezone(UTC) for start in ((year, month), following))
    return first, after
