"""The schedules' turn: due times become runs, and runs become jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from costguard.access import token_rows
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import Conflict, CostguardError, Forbidden, Invalid, Missing
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.jobs.rows import job_rows
from costguard.jobs.submit.submit import JobService
from costguard.ledger.narrate import sentence
from costguard.model.ports import Clock
from costguard.schedules import schedule_events, schedule_rows
from costguard.schedules.decide import DueDecision, decide, lateness
from costguard.schedules.recurrence import next_due
from costguard.schedules.runs import submission_at, waits
from costguard.schedules.schedule import RunOutcome, Schedule, ScheduleRun
from costguard.schedules.schedule_rows import Template

VIA = "schedule"
RETRY_EVERY = timedelta(minutes=1)  # of a submission that failed by a trouble of this server's

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SchedulesReport:
    """The counts of one turn."""

    launched: int = 0
    refused: int = 0
    missed: int = 0  # and skipped


class SchedulesTurn:
    """Runs turns, by the holder of the lease. It remembers nothing: each starts from what is stored.

    A run is stored before its job is submitted, under a key that follows from its due time: whenever the process ends,
    the next turn submits the same job again, which is answered with the one that is there.
    """

    def __init__(self, database: Database, clock: Clock, jobs: Callable[[], JobService]) -> None:
        """`jobs` builds what submits jobs, when the first run is due."""
        self._database = database
        self._clock = clock
        self._build = jobs
        self._jobs: JobService | None = None

    def run(self, fence: Lease | None = None, stop: threading.Event | None = None) -> SchedulesReport:
        """Raises LeaseLost when another daemon took over, and StoreError when the database failed."""
        report, now = SchedulesReport(), self._clock.now()
        with self._database.read() as connection:
            due = schedule_rows.due(connection, now)
        for schedule_id in due:
            with Isolated("schedule_not_advanced", schedule=schedule_id):
                self._come_due(schedule_id, now, fence, report)
        with self._database.read() as connection:
            pending = schedule_rows.pending(connection)
        for run in pending:
            if stop is not None and stop.is_set():
                break
            if run.tried_at is None or now - run.tried_at >= RETRY_EVERY:
                self._submit(run, fence, report)
        if report != SchedulesReport():
            log.info("schedules", launched=report.launched, refused=report.refused, missed=report.missed)
        return report

    def _come_due(self, schedule_id: str, now: datetime, fence: Lease | None, report: SchedulesReport) -> None:
        """Decides on what is stored now: it may have been paused meanwhile."""
        with self._database.write(fence) as connection:
            schedule = schedule_rows.read(connection, schedule_id)
            if schedule is None:
                return
            still_open = schedule_rows.open_runs(connection, [schedule_id]).get(schedule_id, [])
            decision = decide(schedule, still_open, now)
            if decision is None:
                return
            report.missed += _record(connection, schedule, decision, still_open, now)
            schedule_rows.advance(connection, schedule_id, decision.next_due, waits(decision.next_due))

    def _submit(self, run: ScheduleRun, fence: Lease | None, report: SchedulesReport) -> None:
        """Submits the job of a run, and stores what came of it."""
        with self._database.read() as connection:
            schedule = schedule_rows.read(connection, run.schedule_id)
            if schedule is None:
                return
            template = schedule_rows.template(connection, run.schedule_id)
            earlier = job_rows.of_key(connection, key_of(run))
            refusal = "" if earlier is not None else _over(connection, template, self._clock.now())
        now = self._clock.now()
        if earlier is not None:
            settled = replace(run, outcome=RunOutcome.LAUNCHED, reason=_LAUNCHED, job_id=earlier.id)
        elif refusal:
            settled = replace(run, outcome=RunOutcome.REFUSED, reason=refusal)
        else:
            settled = self._submitted(schedule, template, run, now)
        with self._database.write(fence) as connection:
            if not schedule_rows.settle(connection, settled):
                return
            if settled.outcome is RunOutcome.LAUNCHED:
                report.launched += 1
                audit_log.append(connection, [schedule_events.launched(schedule, settled, now)], now)
            elif settled.outcome is RunOutcome.REFUSED:
                report.refused += 1
                audit_log.append(connection, [schedule_events.refused(schedule, settled, now)], now)
            elif settled.outcome is RunOutcome.MISSED:
                report.missed += 1
                audit_log.append(connection, [schedule_events.missed(schedule, [settled], 0, now)], now)

    def _submitted(self, schedule: Schedule, template: Template, run: ScheduleRun, now: datetime) -> ScheduleRun:
        made = submission_at(template.submission, schedule.id, schedule.title, schedule.recurrence, run.due_at)
        with Isolated("run_not_submitted", schedule=run.schedule_id, due_at=run.due_at.isoformat()) as failure:
            try:
                job, _ = self._service().submit(made, key_of(run), VIA, template.authority)
            except (Invalid, Conflict, Forbidden, Missing) as refused:
                return replace(run, outcome=RunOutcome.REFUSED, reason=refused.message)
            return replace(run, outcome=RunOutcome.LAUNCHED, reason=_LAUNCHED, job_id=job.id)
        trouble = sentence(failure.error.message if isinstance(failure.error, CostguardError) else failure.words)
        if now - run.due_at > lateness(schedule, run.due_at, next_due(schedule.recurrence, run.due_at)):
            return replace(run, outcome=RunOutcome.MISSED, reason=f"Its job could not be submitted. {trouble}")
        return replace(run, reason=f"Its submission is tried again each minute. {trouble}", tried_at=now)

    def _service(self) -> JobService:
        if self._jobs is None:
            self._jobs = self._build()
        return self._jobs


_LAUNCHED = "Its job was submitted."
_LATE = "Costguard did not run then, or could not launch it by then."


def key_of(run: ScheduleRun) -> str:
    """Returns the idempotency key of a run's job. Keys of callers begin with an address or a way in, never so."""
    return f"schedule/{run.schedule_id}/{run.due_at.isoformat()}"


def _record(
    connection: Connection, schedule: Schedule, decision: DueDecision, still_open: list[str], now: datetime
) -> int:
    """Stores the runs of a decision, and returns how many were missed or skipped.

    A due time has its run already where a user asked for one in the same minute.
    """

    def are_new(*due: datetime) -> list[datetime]:
        return [one for one in due if schedule_rows.run_at(connection, schedule.id, one) is None]

    missed = [ScheduleRun(schedule.id, due_at, RunOutcome.MISSED, _LATE) for due_at in are_new(*decision.missed)]
    skipped = []
    if decision.skipped is not None:
        which = f"job {still_open[0]}" if still_open[0] else "a run that is being launched"
        reason = f"An earlier run is still open: {which}."
        skipped = [ScheduleRun(schedule.id, due, RunOutcome.SKIPPED, reason) for due in are_new(decision.skipped)]
    launched = []
    if decision.launch is not None:
        reason = "Its job is being submitted."
        launched = [ScheduleRun(schedule.id, due, RunOutcome.LAUNCHING, reason) for due in are_new(decision.launch)]
    schedule_rows.add_runs(connection, [*missed, *skipped, *launched])
    for runs, more in ((missed, decision.more_missed), (skipped, 0)):
        if runs:
            audit_log.append(connection, [schedule_events.missed(schedule, runs, more, now)], now)
    return len(missed) + decision.more_missed + len(skipped)


def _over(connection: Connection, template: Template, now: datetime) -> str:
    """Explains that the token which a schedule was created with holds no more; "" where it does, or was none."""
    token_id = template.authority.token_id if template.authority is not None else ""
    token = token_rows.read(connection, token_id) if token_id else None
    if not token_id or (token is not None and not token.is_over(now)):
        return ""
    what = "was revoked" if token is None or token.revoked_at is not None else "has expired"
    return f"The token {token_id}, with which the schedule was created, {what}: create the schedule again."
