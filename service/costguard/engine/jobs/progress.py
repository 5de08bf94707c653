"""What agents told, as facts: that a command runs, and that a job works again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.engine.acting import launch_words
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.job import Job
from costguard.policy.jobs.view import JobView
from costguard.store import facts


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


class Progress:
    """Remembers what was told by this process, so that a run of days is not written about every minute."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[int, int]] = {}

    def news(self, view: JobView) -> Started | None:
        last = view.last.attempt if view.last is not None else None
        if last is None or last.state is not AttemptState.RUNNING or last.heard.started_at is None:
            return None
        run = (last.id, last.heard.run)
        if self._told.get(view.job.id) == run:
            return None
        self._told[view.job.id] = run
        before = [one for one in view.interruptions if (one.attempt_id, one.run) < run]
        return Started(view.job, last, last.heard.started_at, before[-1].happened_at if before else None)

    def forget(self, job_ids: set[str]) -> None:
        """All but these."""
        self._told = {job_id: run for job_id, run in self._told.items() if job_id in job_ids}
