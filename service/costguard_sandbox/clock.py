"""The clocks of the simulated world: moved by hand, or running at a chosen speed."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

_PACIFIC = ZoneInfo("America/Los_Angeles")


class WorldClock(Protocol):
    @property
    def speed(self) -> float:
        """Clock seconds per real second; 0 for a manual clock."""
        ...

    def now(self) -> datetime: ...


class ManualClock:
    """Stands still until `move_to`; never goes back."""

    speed = 0.0

    def __init__(self, start: datetime) -> None:
        self._now = _utc(start)

    def now(self) -> datetime:
        return self._now

    def move_to(self, moment: datetime) -> None:
        if moment < self._now:
            raise ValueError(f"the clock is at {self._now.isoformat()} and cannot go back to {moment.isoformat()}")
        self._now = _utc(moment)


class ScaledClock:
    """Runs `speed` times as fast as real time from `start`, by default now. The speed may change while it runs."""

    def __init__(self, start: datetime | None = None, speed: float = 1.0) -> None:
        self._base = _utc(start) if start else datetime.now(UTC)  # noqa: TID251  the one real clock of the sandbox
        self._since = time.monotonic()
        self._speed = _positive(speed)

    @property
    def speed(self) -> float:
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._base, self._since, self._speed = self.now(), time.monotonic(), _positive(speed)

    def now(self) -> datetime:
        return self._base + timedelta(seconds=(time.monotonic() - self._since) * self._speed)


def _positive(speed: float) -> float:
    if speed <= 0:
        raise ValueError(f"the speed of a clock must be above 0, not {speed}")
    return speed


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; the sandbox's clock needs one")
    return moment.astimezone(UTC)


def to_ms(moment: datetime) -> datetime:
    """The moment as Compute Engine stores it: whole milliseconds, rounded down."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def pacific(moment: datetime) -> str:
    """`2026-09-22T19:43:30.666-07:00`: Compute Engine's format for most times."""
    return moment.astimezone(_PACIFIC).isoformat(timespec="milliseconds")


def zulu(moment: datetime) -> str:
    """`2026-09-23T03:43:19.734339Z`: its format for the end of a run-time limit."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
