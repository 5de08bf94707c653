"""Launches that wait for something outside of the job: a location that cannot be read, Google's limit on calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

_FIRST = timedelta(seconds=30)
_LONGEST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Wait:
    until: datetime
    reason: str
    tries: int


class PutOff:
    """Kept in memory alone: a guard that starts anew tries at once."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def why(self, job_id: str, now: datetime) -> str:
        """ "" where nothing is known to hold it up."""
        wait = self._waits.get(job_id)
        return wait.reason if wait is not None and now < wait.until else ""

    def until(self, job_id: str) -> datetime | None:
        wait = self._waits.get(job_id)
        return wait.until if wait is not None else None

    def until_then(self, job_id: str, until: datetime, reason: str) -> None:
        self._waits[job_id] = _Wait(until, reason, 0)

    def for_longer(self, job_id: str, reason: str, now: datetime) -> None:
        """Each time in a row twice as long as the time before."""
        tries = self._waits[job_id].tries if job_id in self._waits else 0
        self._waits[job_id] = _Wait(now + min(_LONGEST, _FIRST * 2 ** min(tries, 10)), reason, tries + 1)

    def forget(self, job_id: str) -> None:
        self._waits.pop(job_id, None)
