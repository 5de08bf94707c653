"""Google's billing month: the calendar month in US Pacific time.

Google's export cuts days and invoices by `US/Pacific` (docs.cloud.google.com/billing/docs/how-to/bq-examples). Recorded
rows give a GiB-month 2,678,400 seconds in May and August, and 2,674,800 in a March, which loses an hour to daylight
saving: tests/ledger/recorded_bill.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_PACIFIC = ZoneInfo("America/Los_Angeles")
_SECOND = timedelta(seconds=1)


def billing_month(moment: datetime) -> tuple[datetime, datetime]:
    """The month around an aware moment, [start, end) in UTC: both at 07:00 or 08:00."""
    there = moment.astimezone(_PACIFIC)
    return _bounds(there.year, there.month)


def seconds_of_month(moment: datetime) -> int:
    """2,419,200 in a February up to 2,678,400; an hour less in a March, an hour more in a November."""
    start, end = billing_month(moment)
    return (end - start) // _SECOND


def cut_by_month(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """[start, end) cut where a month ends; nothing when it is empty."""
    while start < end:
        cut = min(end, billing_month(start)[1])
        yield start, cut
        start = cut


@lru_cache(maxsize=1024)
def _bounds(year: int, month: int) -> tuple[datetime, datetime]:
    first = datetime(year, month, 1, tzinfo=_PACIFIC)
    following = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=_PACIFIC)
    return first.astimezone(UTC), following.astimezone(UTC)
