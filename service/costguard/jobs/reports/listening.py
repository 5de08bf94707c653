"""Tracks since when this guard has heard agents and people without a gap: silence before that is its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from costguard.db.lease import Lease, elapsed_s
from costguard.model.ports import Clock

# Signs of life come every one to three seconds, and a question to the database may take four.
_MOST_S = 10.0
# Time servers turn a clock by less between two looks; what moves it further sets it.
_CLOCK_SET_S = 5.0
_LONG = timedelta(minutes=1)  # restarts and takeovers take less; in less nobody loses an answer

log = structlog.get_logger(__name__)


class Listening:
    """Begins again after each gap: the process or the machine stood still, a part was away, or the clock was set.

    `elapsed_s` counts the sleep of a machine too, as CLOCK_BOOTTIME does on Linux. Where a hypervisor halts it with the
    machine, the wall clock is set right after that, and `wall_s` shows it.
    """

    def __init__(
        self,
        clock: Clock,
        wall_s: Callable[[], float] = time.time,  # noqa: TID251 - the machine's own, to hold against elapsed time
        elapsed_s: Callable[[], float] = elapsed_s,
    ) -> None:
        self._clock, self._wall_s, self._elapsed_s = clock, wall_s, elapsed_s
        self._lock = threading.Lock()
        self._signs_s: dict[str, float] = {}  # the last of each part, in elapsed time
        self._epoch: int | None = None
        self._answers_since: datetime | None = None
        self._since = clock.now()
        self._offset_s = wall_s() - elapsed_s()

    def expect(self, *parts: str) -> None:
        """Expects each of these to give signs of life from now on, or nothing is heard."""
        with self._lock:
            self._signs_s |= dict.fromkeys(parts, self._elapsed_s())

    def sign(self, part: str) -> None:
        """This part works: it can hear an agent's report, or store it."""
        with self._lock:
            self._look()
            self._signs_s[part] = self._elapsed_s()

    def under(self, lease: Lease | None) -> None:
        """Notes the lease before each decision. Under a new lease another guard, or none, heard what came before."""
        if lease is None:
            return
        with self._lock:
            if lease.epoch == self._epoch:
                return
            self._epoch = lease.epoch
            self._since = self._clock.now()
            if lease.unheld > _LONG:
                self._answers_since = self._since

    @property
    def since(self) -> datetime:
        """Returns the moment since which agents' reports would have arrived."""
        with self._lock:
            self._look()
            return self._since

    @property
    def answers_since(self) -> datetime | None:
        """Returns the moment since which people could answer reminders; None: no gap of a minute is known."""
        with self._lock:
            self._look()
            return self._answers_since

    def _look(self) -> None:
        elapsed = self._elapsed_s()
        offset = self._wall_s() - elapsed
        away = sorted(part for part, at in self._signs_s.items() if elapsed - at > _MOST_S)
        turned = offset - self._offset_s
        if not away and abs(turned) <= _CLOCK_SET_S:
            return
        now = self._clock.now()
        if now - self._since > timedelta(seconds=_MOST_S):  # a gap is looked at many times while it lasts
            log.warning("listening_began_again", away=away, clock_set_by_s=round(turned, 1))
        self._since, self._offset_s = now, offset
        if max(abs(turned), *(elapsed - at for at in self._signs_s.values()), 0.0) >= _LONG.total_seconds():
            self._answers_since = now
