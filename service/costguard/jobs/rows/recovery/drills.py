"""Rows of preemption drills: requested by a person or at launch, taken up by an agent, settled once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from costguard.db.bulk import chunks
from costguard.db.tables import drills, jobs
from costguard.db.types import storable
from costguard.events import audit_log
from costguard.jobs.decide.checkpoints.notice import measured_save
from costguard.jobs.rows import job_events, job_rows
from costguard.jobs.rows.agent_fields import DrillReport
from costguard.model.attempt import Interruption, Notice, Outcome
from costguard.model.job import Job, JobSpec
from costguard.model.reported.drill import Drill, DrillResult, DrillState, SavedOnNotice, counted

_OPEN = drills.c.state != DrillState.OVER.value
_OPEN_OF_JOBS = select(drills).where(drills.c.job_id.in_(bindparam("of_jobs", expanding=True)), _OPEN)
_OPEN_OF_JOB = select(drills).where(drills.c.job_id == bindparam("of_job"), _OPEN)
_MILLISECOND = timedelta(milliseconds=1)
_LATELY = 50  # drills that are looked through for one like it


def add(connection: Connection, job: Job, by: str, now: datetime) -> Drill | None:
    """Adds a drill. None: another one of this job is not over."""
    if open_drill(connection, job.id) is not None:
        return None
    last = connection.scalar(select(func.max(drills.c.number)).where(drills.c.job_id == job.id))
    drill = Drill(job.id, (last or 0) + 1, now, by)
    connection.execute(insert(drills).values(job_id=job.id, number=drill.number, **_columns(drill)))
    return drill


def open_drill(connection: Connection, job_id: str) -> Drill | None:
    row = connection.execute(_OPEN_OF_JOB, {"of_job": storable(job_id)}).first()
    return None if row is None else _drill(row)


def of_job(connection: Connection, job_id: str) -> list[Drill]:
    """The newest first."""
    mine = select(drills).where(drills.c.job_id == storable(job_id)).order_by(drills.c.number.desc())
    return [_drill(row) for row in connection.execute(mine)]


def last_save(connection: Connection, spec: JobSpec) -> timedelta | None:
    """Returns how long the last save on a notice took of a job with this command and preset; None: none was seen."""
    mine = select(drills).join(jobs, jobs.c.id == drills.c.job_id)
    mine = mine.where(jobs.c.preset == storable(spec.preset), drills.c.result.is_not(None))
    held = [_drill(row) for row in connection.execute(mine.order_by(drills.c.ended_at.desc()).limit(_LATELY))]
    specs = {job_id: job.spec for job_id, job in job_rows.of_ids(connection, {one.job_id for one in held}).items()}
    return measured_save(one for one in held if one.job_id in specs and _is_alike(specs[one.job_id], spec))


def _is_alike(one: JobSpec, other: JobSpec) -> bool:
    return (one.project, one.image, one.command) == (other.project, other.image, other.command)


def open_of(connection: Connection, job_ids: Collection[str]) -> dict[str, Drill]:
    """The drills that are not over, by their jobs."""
    rows = [row for some in chunks(set(job_ids)) for row in connection.execute(_OPEN_OF_JOBS, {"of_jobs": some})]
    return {row.job_id: _drill(row) for row in rows}


def hear(connection: Connection, job_id: str, attempt_id: int, reports: Sequence[DrillReport], now: datetime) -> None:
    """Records reports of the agent of an attempt that is not over. The first result of a drill stays."""
    for report in reports:
        drill = open_drill(connection, job_id)
        if drill is None or drill.number != report.number or drill.attempt_id not in (None, attempt_id):
            continue
        values = {name: getattr(report, name) for name in _REPORTED if getattr(report, name) is not None}
        is_held = report.state is not DrillState.WAITING
        after = replace(drill, **values, attempt_id=attempt_id if is_held else None)
        if after.is_over:
            _settle(connection, after, now)
        else:
            _store(connection, after)


def interrupt(connection: Connection, job_id: str, attempt_id: int, now: datetime) -> None:
    """The attempt is over. A drill that nobody had begun to hold waits for the next VM."""
    drill = open_drill(connection, job_id)
    if drill is not None and drill.attempt_id == attempt_id:
        _settle(connection, replace(drill, state=DrillState.OVER, result=DrillResult.INTERRUPTED), now)


def give_up(connection: Connection, job_id: str, now: datetime) -> None:
    """The job is over."""
    drill = open_drill(connection, job_id)
    if drill is not None:
        result = DrillResult.NOT_HELD if drill.attempt_id is None else DrillResult.INTERRUPTED
        _settle(connection, replace(drill, state=DrillState.OVER, result=result), now)


def saved_on_notice(held: Sequence[Drill], interruptions: Sequence[Interruption]) -> SavedOnNotice:
    """Drills, and preemptions that were announced and of which it is known what they lost."""
    announced = [
        one
        for one in interruptions
        if one.outcome is Outcome.PREEMPTED and one.noticed_by is Notice.NOTICE and one.lost is not None
    ]
    # A checkpoint from after the notice leaves nothing lost: see `figures.lost_work`.
    return counted(held, [not one.lost and not one.from_zero for one in announced])


def _settle(connection: Connection, drill: Drill, now: datetime) -> None:
    drill = replace(drill, ended_at=now)
    _store(connection, drill)
    job = job_rows.read(connection, drill.job_id)
    if job is not None:
        audit_log.append(connection, [job_events.drilled(job, drill, now)], now)


_REPORTED = (
    *("state", "result", "began_at", "grace", "saved", "uploaded", "resumed", "goes_on", "checkpoint", "step"),
    *("step_before", "why", "was_killed"),
)


def _store(connection: Connection, drill: Drill) -> None:
    mine = update(drills).where(drills.c.job_id == drill.job_id, drills.c.number == drill.number, _OPEN)
    connection.execute(mine.values(**_columns(drill)))


def _columns(drill: Drill) -> dict[str, Any]:
    spans = {name: getattr(drill, name) for name in ("grace", "saved", "uploaded", "resumed")}
    return {
        "requested_at": drill.requested_at,
        "requested_by": storable(drill.requested_by),
        "state": drill.state.value,
        "result": None if drill.result is None else drill.result.value,
        "attempt_id": drill.attempt_id,
        "began_at": drill.began_at,
        "ended_at": drill.ended_at,
        **{f"{name}_ms": None if span is None else span // _MILLISECOND for name, span in spans.items()},
        "goes_on": drill.goes_on,
        "checkpoint": storable(drill.checkpoint),
        "step": drill.step,
        "step_before": drill.step_before,
        "why": storable(drill.why),
        "was_killed": drill.was_killed,
    }


def _drill(row: Row[*tuple[Any, ...]]) -> Drill:
    def span(milliseconds: int | None) -> timedelta | None:
        return None if milliseconds is None else milliseconds * _MILLISECOND

    return Drill(
        job_id=row.job_id,
        number=row.number,
        requested_at=row.requested_at,
        requested_by=row.requested_by,
        state=DrillState(row.state),
        result=None if row.result is None else DrillResult(row.result),
        attempt_id=row.attempt_id,
        began_at=row.began_at,
        ended_at=row.ended_at,
        grace=span(row.grace_ms),
        saved=span(row.saved_ms),
        uploaded=span(row.uploaded_ms),
        resumed=span(row.resumed_ms),
        goes_on=row.goes_on,
        checkpoint=row.checkpoint,
        step=row.step,
        step_before=row.step_before,
        why=row.why,
        was_killed=bool(row.was_killed),
    )
