"""Which jobs are to be decided on in a turn: those with news, and those whose time has come."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from costguard.jobs.job_news import News

# What makes no mark, such as a budget that fills up or a price that changes, is noticed so late at most.
_AT_LEAST_EVERY = timedelta(seconds=60)
_UNSETTLED_EVERY = timedelta(seconds=5)


class Agenda:
    """Kept in memory alone: a guard that starts anew decides on every job once."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[Any, ...]] = {}
        self._due: dict[str, datetime] = {}

    def due(self, news: News, now: datetime) -> set[str]:
        for gone in self._marks.keys() - news.marks.keys():
            del self._marks[gone]
            self._due.pop(gone, None)
        return {
            job_id
            for job_id, mark in news.marks.items()
            if self._marks.get(job_id) != mark or self._due.get(job_id, now) <= now
        }

    def decided(self, job_id: str, news: News, next_at: datetime | None, now: datetime) -> None:
        """It was decided on with at least this news. `next_at` is when it has to be again, without any."""
        at_last = now + (_UNSETTLED_EVERY if job_id in news.unsettled else _AT_LEAST_EVERY)
        self._marks[job_id] = news.marks.get(job_id, ())
        self._due[job_id] = at_last if next_at is None else min(next_at, at_last)
