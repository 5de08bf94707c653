"""Watches the checkpoints of running jobs: what a preemption would cost, and whether they advance."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import CheckpointError
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.jobs.decide.checkpoints.work_at_risk import at_risk
from costguard.jobs.decide.gang.past_rounds import resumed_runs
from costguard.jobs.decide.recovery.resume import trusted
from costguard.jobs.rows import agenda, attempts, job_events, job_rows
from costguard.jobs.rows.gang import gang_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.event import Event
from costguard.model.job import CheckpointPlan, Job, JobState, SeenCheckpoint, Terms
from costguard.model.ports import Checkpoints, Clock
from costguard_vm.model.suspects import ResumedRun

EVERY = timedelta(minutes=5)
_WORKERS = 8
_AT_ONCE = 64

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class CheckpointReport:
    looked: int = 0
    advanced: int = 0
    troubles: dict[str, str] = field(default_factory=dict)  # by job


class CheckpointWatch:
    """Looks at the checkpoints of jobs, one run at a time; the caller sees to that.

    A location that it cannot read is noted with the job, and read again later.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        checkpoints: Checkpoints,
        terms: Terms,
        every: timedelta = EVERY,
        workers: int = _WORKERS,
    ) -> None:
        self._database = database
        self._clock = clock
        self._checkpoints = checkpoints
        self._terms = terms
        self._every = every
        self._workers = workers

    def run(self, fence: Lease | None = None, stop: threading.Event | None = None) -> CheckpointReport:
        """Looks at those whose turn it is; the rest costs a query or two. Raises LeaseLost and StoreError."""
        report = CheckpointReport()
        with self._database.read() as connection:
            ids = [job_id for job_id, state in agenda.states(connection).items() if state == JobState.RUNNING]
            running = [job for job in _readable(connection, ids) if _plan(job) is not None]
            before = job_rows.checkpoint(connection, [job.id for job in running])
            due = [job for job in running if self._is_due(before.get(job.id))]
            tried = attempts.of_jobs(connection, [job.id for job in due])
            rounds = gang_rows.rounds_of(connection, due)
            ended = interruptions.of_jobs(connection, [job.id for job in due if job.is_gang])
        if not due:
            return report

        def look(job: Job) -> SeenCheckpoint:
            mine, over = tried.get(job.id, []), rounds.get(job.id, [])
            return self._look(job, resumed_runs(job, mine, over, ended.get(job.id, [])))

        with ThreadPoolExecutor(self._workers, thread_name_prefix="checkpoints") as pool:
            for begin in range(0, len(due), _AT_ONCE):
                some = due[begin : begin + _AT_ONCE]
                if stop is not None and stop.is_set():
                    break
                looks = dict(zip((job.id for job in some), pool.map(look, some), strict=True))
                with self._database.write(fence) as connection:
                    self._write(connection, some, looks, before, report)
        return report

    def _is_due(self, seen: SeenCheckpoint | None) -> bool:
        return seen is None or self._clock.now() - seen.looked_at >= self._every

    def _look(self, job: Job, runs: Sequence[ResumedRun]) -> SeenCheckpoint:
        plan, now = _plan(job), self._clock.now()
        if plan is None:
            raise ValueError(f"job {job.id} has no location that can be looked at")
        with Isolated("checkpoints_not_looked_at", job=job.id) as failure:
            try:
                seen, _, _ = trusted(self._checkpoints, plan, runs, self._terms, now)
                return seen
            except CheckpointError as error:
                return SeenCheckpoint(now, error=str(error))
        return SeenCheckpoint(now, error=f"{failure.words}. The log holds the trace to report.")

    def _write(
        self,
        connection: Connection,
        some: Collection[Job],
        looks: Mapping[str, SeenCheckpoint],
        before: Mapping[str, SeenCheckpoint],
        report: CheckpointReport,
    ) -> None:
        now = self._clock.now()
        tried = attempts.of_jobs(connection, [job.id for job in some])
        saved = job_rows.save_looks(connection, looks)
        events: list[Event] = []
        for job in some:
            earlier = before.get(job.id)
            seen = saved[job.id]
            report.looked += 1
            report.advanced += seen.advanced_at is not None and seen.advanced_at == seen.looked_at
            if looks[job.id].error:
                report.troubles[job.id] = looks[job.id].error
                continue
            # One that is being written looks torn as well: it is reported when it still does at the next look.
            still = set(earlier.torn if earlier is not None else ()) & set(seen.torn)
            events += [job_events.torn(job, checkpoint, now) for checkpoint in sorted(still)]
            if (what := looks[job.id].unrecognised) and (last := tried.get(job.id, [])[-1:]):
                events.append(job_events.unrecognised(job, last[0], last[0].agent.run, what, now))
            stalled = self._stalled(job, tried.get(job.id, []), seen, now)
            events += [stalled] if stalled is not None else []
        audit_log.append(connection, events, now)

    def _stalled(self, job: Job, tried: list[Attempt], seen: SeenCheckpoint, now: datetime) -> Event | None:
        """Reports a stalled save, once for each run and newest checkpoint."""
        last = tried[-1] if tried else None
        if last is None or last.state is not AttemptState.RUNNING or last.agent.started_at is None:
            return None
        since = max(last.agent.started_at, seen.written_at) if seen.written_at is not None else last.agent.started_at
        risk = at_risk(last, seen, now)
        if risk is None or now - since < self._terms.stalled:
            return None
        return job_events.stalled(job, last, seen, risk, now)


def _readable(connection: Connection, ids: Collection[str]) -> list[Job]:
    """Reads jobs without those whose row is malformed: the turn reports them."""
    try:
        return list(job_rows.of_ids(connection, ids).values())
    except ValueError:
        if len(ids) == 1:
            return []
    return [job for job_id in ids for job in _readable(connection, [job_id])]


def _plan(job: Job) -> CheckpointPlan | None:
    """Returns the plan of a running job whose location can be read from here."""
    plan = job.spec.checkpoint
    return plan if plan is not None and not plan.is_on_disk and job.state is JobState.RUNNING else None
