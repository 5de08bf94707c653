"""Calendar quarters in a team's time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

_TEXT = re.compile(r"(20[0-9]{2})-?Q([1-4])", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Quarter:
    """A calendar quarter: 2026-Q4 is October, November and December of 2026."""

    year: int
    number: int  # from 1 to 4

    def __str__(self) -> str:
        return f"{self.year}-Q{self.number}"

    @classmethod
    def parse(cls, text: str) -> Quarter:
        """Raises ValueError, with what to write."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text[:40]!r} is no quarter: write 2026-Q4.")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def at(cls, moment: datetime, zone: ZoneInfo) -> Quarter:
        """Returns the quarter of a moment, by the calendar of that zone."""
        local = moment.astimezone(zone)
        return cls(local.year, (local.month + 2) // 3)

    @property
    def next(self) -> Quarter:
        return Quarter(self.year + 1, 1) if self.number == 4 else Quarter(self.year, self.number + 1)

    def begins_at(self, zone: ZoneInfo) -> datetime:
        """Returns its first moment in that zone, in UTC."""
        return datetime(self.year, 3 * self.number - 2, 1, tzinfo=zone).astimezone(UTC)

    def ends_at(self, zone: ZoneInfo) -> datetime:
        """Returns the first moment after it in that zone, in UTC."""
        return self.next.begins_at(zone)

    @property
    def days(self) -> tuple[date, date]:
        """Returns its first and its last day."""
        return date(self.year, 3 * self.number - 2, 1), date(self.next.year, 3 * self.next.number - 2, 1) - timedelta(
            days=1
        )
