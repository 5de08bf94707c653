"""Notes that a command has begun or its deadline has passed, each once in the life of a process."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.actions.execute import Note
from costguard.events import audit_log
from costguard.jobs.act.attempts.vm_step import JobNote
from costguard.jobs.decide.view import JobView
from costguard.jobs.rows import job_events
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.job import Job


@dataclass(frozen=True, slots=True)
class StartedNote(JobNote):
    """Appended once, however often it is written; `interrupted_at` is None where no run had begun before this one."""

    attempt: Attempt
    started_at: datetime
    interrupted_at: datetime | None

    def write(self, connection: Connection, now: datetime) -> bool:
        run = self.attempt.agent.run
        events = [job_events.started(self.job, self.attempt, run, self.started_at)]
        if self.interrupted_at is not None:
            after = self.started_at - self.interrupted_at
            events.append(job_events.resumed(self.job, self.attempt, run, after, self.started_at))
        audit_log.append(connection, events, now)
        return False


@dataclass(frozen=True, slots=True)
class LateNote(JobNote):
    """Notes that its deadline has passed, which is reported and stops nothing."""

    deadline: datetime

    def write(self, connection: Connection, now: datetime) -> bool:
        audit_log.append(connection, [job_events.late(self.job, self.deadline)], now)
        return False


class ProgressNotes:
    """Remembers what this process has reported, so that a run of days is not reported every minute."""

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
        if last is None or last.state is not AttemptState.RUNNING or last.agent.started_at is None:
            return []
        run = (last.id, last.agent.run)
        if self._started.get(view.job.id) == run:
            return []
        self._started[view.job.id] = run
        started_at = last.agent.started_at
        if view.job.is_gang:  # any of its VMs may have been the one that was interrupted
            before = [one for one in view.interruptions if one.happened_at <= started_at]
        else:
            before = [one for one in view.interruptions if (one.attempt_id, one.run) < run]
        return [StartedNote(view.job, last, started_at, before[-1].happened_at if before else None)]

    def _of_deadline(self, job: Job, now: datetime) -> list[Note]:
        deadline = job.spec.deadline
        if deadline is None or now < deadline or job.state.is_over or job.id in self._late:
            return []
        self._late.add(job.id)
        return [LateNote(job, deadline)]
