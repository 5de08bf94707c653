"""The two clocks that a running Costguard can have."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the one place that reads it


class ScaledClock:
    """Time that is `origin` now and runs `speed` times as fast as the machine's: for demonstrations."""

    def __init__(self, origin: datetime, speed: float, real: SystemClock | None = None) -> None:
        self._origin = origin
        self._speed = speed
        self._real = real or SystemClock()
        self._since = self._real.now()

    def now(self) -> datetime:
        return self._origin + (self._real.now() - self._since) * self._speed
