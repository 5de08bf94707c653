"""The two clocks that a running Costguard can have."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the one place that reads it


class ScaledClock:
    """Time that runs `speed` times as fast as the machine's: for demonstrations.

    It was `origin` when the machine's clock showed `since`: by default that is now.
    """

    def __init__(
        self, origin: datetime, speed: float, real: SystemClock | None = None, since: datetime | None = None
    ) -> None:
        self.origin, self.speed = origin, speed
        self._real = real or SystemClock()
        self.since = self._real.now() if since is None else since

    def now(self) -> datetime:
        return self.origin + (self._real.now() - self.since) * self.speed
