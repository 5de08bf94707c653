"""The last resort against an unforeseen hang: a thread that uses no database counts the silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from costguard.daemon.lease_keeper import LEASE_TTL

# Twice the lease's life: by then another daemon acts, or could, and two renewals over new connections were in vain.
LIMIT = 2 * LEASE_TTL
TICK = timedelta(seconds=1)
# A process whose watchdog could not look for this long was itself stopped: a laptop slept, a VM was moved.
_STOOD_STILL = timedelta(seconds=5)


class Watchdog:
    """Calls `bark` once the database has not answered the keeper of the lease for `limit`.

    An answer is a lease that was renewed, one that another daemon holds, or an error that the database or the network
    gave in time: a database that is down, locked or full is no hang, and its readers keep their pages. Time in which
    this process stood still does not count: it begins again when the process goes on.
    """

    def __init__(
        self,
        bark: Callable[[timedelta], None],
        limit: timedelta = LIMIT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bark = bark
        self._limit_s = limit.total_seconds()
        self._monotonic = monotonic
        self._was_answered = False
        self._silent_s = 0.0
        self._looked_s = monotonic()
        self._stop = threading.Event()

    def answered(self) -> None:
        self._was_answered = True

    def start(self) -> None:
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def end(self) -> None:
        self._stop.set()

    def look(self) -> bool:
        """Count the time since the last look; whether that was too much."""
        now = self._monotonic()
        passed, self._looked_s = now - self._looked_s, now
        if self._was_answered or passed > _STOOD_STILL.total_seconds():
            self._was_answered, self._silent_s = False, 0.0
        else:
            self._silent_s += passed
        return self._silent_s >= self._limit_s

    def _run(self) -> None:
        self._looked_s = self._monotonic()
        while not self._stop.wait(TICK.total_seconds()):
            if self.look():
                self._bark(timedelta(seconds=self._silent_s))
                return
