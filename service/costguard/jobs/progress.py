"""What is told of jobs though nothing is done: that a command runs, that it works again, that it is late."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.events import facts
from costguard.jobs import launch_words
from costguard.jobs.launch_step import Note
from costguard.jobs.view import JobView
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.job import Job


@dataclass(frozen=True, slots=True)
class Started:
    """Appended once, however often it is written; `interrupted_at` is None where no run had begun before this one."""

    job: Job
    attempt: Attempt
    started_at: datetime
    interrupted_at: datetime | None

    @property
    def job_id(self) -> str:
        return self.job.id

    def write(self, connection: Connection, now: datetime) -> bool:
        run = self.attempt.heard.run
        told = [launch_words.started(self.job, self.attempt, run, self.started_at)]
        if self.interrupted_at is not None:
            after = self.started_at - self.interrupted_at
            told.append(launch_words.resumed(self.job, self.attempt, run, after, self.started_at))
        facts.append(connection, told, now)
        return False


@dataclass(frozen=True, slots=True)
class Late:
    """Its deadline has passed. It is told, and stops nothing."""

    job: Job
    deadline: datetime

    @property
    def job_id(self) -> str:
        return self.job.id

    def write(self, connection: Connection, now: datetime) -> bool:
        facts.append(connection, [launch_words.late(self.job, self.deadline)], now)
        return False


class Progress:
    """Remembers what was told by this process, so that a run of days is not written about every minute."""

    def __init__(self) -> None:
        self._started: dict[str, tuple[int, int]] = {}
        self._late: set[str] = set()

    def news(self, view: JobView, now: datetime) -> list[Note]:
        return [*self._of_run(view), *self._of_deadline(view.job, now)]

    def forget(self, job_ids: Collection[str]) -> None:
        """All but these."""
        self._started = {job_id: run for job_id, run in self._started.items() if job_id in job_ids}
        self._late.intersection_update(job_ids)

    def _of_run(self, view: JobView) -> list[Note]:
        last = view.last.attempt if view.last is not None else None
        if last is None or last.state is not AttemptState.RUNNING or last.heard.started_at is None:
            return []
        run = (last.id, last.heard.run)
        if self._started.get(view.job.id) == run:
            return []
        self._started[view.job.id] = run
        before = [one for one in view.interruptions if (one.attempt_id, one.run) < run]
        return [Started(view.job, last, last.heard.started_at, before[-1].happened_at if before else None)]

    def _of_deadline(self, job: Job, now: datetime) -> list[Note]:
        deadline = job.spec.deadline
        if deadline is None or now < deadline or job.state.is_over or job.id in self._late:
            return []
        self._late.add(job.id)
        return [Late(job, deadline)]
