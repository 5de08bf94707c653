"""Rows of jobs, and of the last look at the checkpoints of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    insert,
    or_,
    select,
    text,
    tuple_,
    update,
)

from costguard.db import named as named_rows
from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import LIVE_ATTEMPT, OPEN_JOB, attempts, job_labels, jobs, tracked_runs
from costguard.db.types import storable
from costguard.jobs.rows.checkpoints import checkpoint_rows
from costguard.model.attempt import AttemptState
from costguard.model.job import COSTGUARD, EarlyEnd, Job, JobKind, JobSpec, JobState, SeenCheckpoint
from costguard.model.launch import Recipe

# Keys that a later version wrote are passed over, and fields that an earlier one lacked have their defaults.
SPEC = TypeAdapter(JobSpec)
RECIPE = TypeAdapter(Recipe)

_OPEN = text(OPEN_JOB)


@dataclass(frozen=True, slots=True)
class JobFilters:
    """Each of several values lets any of them through; empty ones let everything."""

    state: tuple[JobState, ...] = ()
    owner: tuple[str, ...] = ()
    preset: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    kind: tuple[JobKind, ...] = ()
    open: bool | None = None
    or_disk_kept: bool = False  # with `open`: also those that are over and whose disk is kept
    or_ended_since: datetime | None = None  # with `open`: also those that ended since then


def add(connection: Connection, job: Job, idempotency_key: str | None, digest: str) -> tuple[Job, bool]:
    """The job, and whether it is new: of a key that is known already, the job that came with it."""
    if idempotency_key is not None:
        known_job = of_key(connection, idempotency_key)
        if known_job is not None:
            return known_job, False
    spec = job.spec
    row = {
        "id": job.id,
        "idempotency_key": storable(idempotency_key),
        "request_digest": digest,
        "kind": spec.kind.value,
        "name": storable(spec.name),
        "owner": storable(spec.owner),
        "preset": storable(spec.preset),
        "project": storable(spec.project),
        "spec": storable(SPEC.dump_python(spec, mode="json")),
        "recipe": storable(RECIPE.dump_python(job.recipe, mode="json")),
        "state": job.state.value,
        "reason": storable(job.reason),
        "via": storable(job.via),
        "created_at": job.created_at,
        "settled_at": job.settled_at,
        "cancel_asked_at": job.cancel_asked_at,
        "cancel_asked_by": storable(job.cancel_asked_by),
        "next_at": job.next_at,
    }
    made = _job(connection.execute(insert(jobs).values(row).returning(jobs)).one())
    if runs := [
        {"job_id": job.id, "tracker": tracker.value, "run": storable(run)} for tracker, run in spec.tracker_runs.items()
    ]:
        connection.execute(insert(tracked_runs), runs)
    if labels := [{"job_id": job.id, "label": key, "value": value} for key, value in spec.labels.items()]:
        connection.execute(insert(job_labels), labels)
    return made, True


def digest_of(connection: Connection, idempotency_key: str) -> str | None:
    """Returns the digest of the request that came with this key; None: it is not known."""
    query = select(jobs.c.request_digest).where(jobs.c.idempotency_key == storable(idempotency_key))
    return connection.scalar(query)


_METRIC_BETTER = select(jobs.c.id, jobs.c.spec[("metric", "better")].as_string().label("better")).where(
    jobs.c.id.in_(bindparam("of_jobs", expanding=True))
)


def of_key(connection: Connection, idempotency_key: str) -> Job | None:
    """The job that came with this key; None: it is not known."""
    row = connection.execute(select(jobs).where(jobs.c.idempotency_key == storable(idempotency_key))).first()
    return None if row is None else _job(row)


def id_of(connection: Connection, named: str) -> str:
    """The id of the job with this id or name, as `db.named.id_of` chooses. Raises Conflict."""
    return named_rows.id_of(connection, jobs, _OPEN, named, "jobs")


def read(connection: Connection, job_id: str) -> Job | None:
    row = connection.execute(*_of_id(storable(job_id))).first()
    return None if row is None else _job(row)


@prepared
def _of_id(job_id: str) -> Select[Any]:
    return select(jobs).where(jobs.c.id == job_id)


def metrics_better(connection: Connection, job_ids: Collection[str]) -> dict[str, str | None]:
    """Returns the better direction of the jobs' own metrics; None: it has none."""
    rows = (row for some in chunks(job_ids) for row in connection.execute(_METRIC_BETTER, {"of_jobs": some}))
    return {row.id: row.better for row in rows}


def of_ids(connection: Connection, job_ids: Collection[str]) -> dict[str, Job]:
    """Returns the jobs with these ids, as far as they exist."""
    rows = (row for some in chunks(set(job_ids)) for row in connection.execute(*_of_ids(some)))
    return {row.id: _job(row) for row in rows}


@prepared
def _of_ids(job_ids: list[str]) -> Select[Any]:
    return select(jobs).where(jobs.c.id.in_(job_ids))


def open_jobs(connection: Connection) -> list[Job]:
    """All that are not over, the oldest first."""
    rows = connection.execute(select(jobs).where(_OPEN)).all()
    return sorted((_job(row) for row in rows), key=lambda job: (job.created_at, job.id))


def page(
    connection: Connection,
    filters: JobFilters,
    after: tuple[datetime, str] | None,
    limit: int,
    *,
    oldest_first: bool = False,
) -> list[Job]:
    """The newest first, or the oldest; `after` is the creation and the id of the last one that was read."""
    query, place = select(jobs).where(*_conditions(filters)), tuple_(jobs.c.created_at, jobs.c.id)
    if after is not None:
        query = query.where(place > after if oldest_first else place < after)
    order = (jobs.c.created_at, jobs.c.id) if oldest_first else (jobs.c.created_at.desc(), jobs.c.id.desc())
    rows = connection.execute(query.order_by(*order).limit(limit))
    return [_job(row) for row in rows]


def disk_kept(connection: Connection) -> list[Job]:
    """All that are over and whose stopped VM may hold the only copy of what they saved."""
    return [_job(row) for row in connection.execute(select(jobs).where(_disk_kept()).order_by(jobs.c.id))]


def set_state(
    connection: Connection, job_id: str, state: JobState, reason: str, next_at: datetime | None, now: datetime
) -> bool:
    """False: it is over already, and stays as it is."""
    values = {
        "state": state.value,
        "reason": storable(reason),
        "next_at": next_at,
        "settled_at": now if state.is_over else None,
    }
    return connection.execute(update(jobs).where(jobs.c.id == job_id, _OPEN).values(values)).rowcount == 1


def still_open(connection: Connection, job_ids: Collection[str]) -> set[str]:
    """Returns those of these jobs that are not over."""
    return {job_id for some in chunks(job_ids) for job_id in connection.scalars(*_still_open(some))}


@prepared
def _still_open(job_ids: list[str]) -> Select[Any]:
    return select(jobs.c.id).where(jobs.c.id.in_(job_ids), _OPEN)


def set_reasons(connection: Connection, reasons: Mapping[str, tuple[str, datetime | None]]) -> None:
    """Sets, of open jobs whose states stand, how each stands and when it is looked at next."""
    values = [
        {"of_job": job_id, "reason": storable(reason), "next_at": next_at}
        for job_id, (reason, next_at) in reasons.items()
    ]
    if values:
        connection.execute(_SET_REASON, values)


_SET_REASON = update(jobs).where(jobs.c.id == bindparam("of_job"), _OPEN)


def ask_cancel(connection: Connection, job_id: str, by: str, reason: str, at: datetime) -> bool:
    """Write down who wants it cancelled, and `reason` as how it stands. False: it is over, or it was asked before."""
    values = {"cancel_asked_at": at, "cancel_asked_by": storable(by), "reason": storable(reason), "next_at": None}
    mine = update(jobs).where(jobs.c.id == job_id, jobs.c.cancel_asked_at.is_(None), _OPEN)
    return connection.execute(mine.values(values)).rowcount == 1


def end_early(connection: Connection, job_id: str, why: EarlyEnd, reason: str, at: datetime) -> bool:
    """Write down why Costguard ends it now, as a cancel would. False: it is over, or a cancel was asked before."""
    values = {"early_why": why.value, "early_reason": storable(reason)}
    mine = update(jobs).where(jobs.c.id == job_id, jobs.c.cancel_asked_at.is_(None), _OPEN)
    if connection.execute(mine.values(values)).rowcount != 1:
        return False
    return ask_cancel(connection, job_id, COSTGUARD, f"{reason}; its command gets time to save first.", at)


def ask_cancel_after(connection: Connection, job_id: str, by: str, at: datetime) -> bool:
    """Write down who wants it cancelled after its next checkpoint. False: it is over, or a cancel was asked before."""
    values = {"cancel_after_at": at, "cancel_after_by": storable(by), "next_at": None}
    is_new = and_(jobs.c.cancel_after_at.is_(None), jobs.c.cancel_asked_at.is_(None))
    return connection.execute(update(jobs).where(jobs.c.id == job_id, is_new, _OPEN).values(values)).rowcount == 1


def take_cancel_due(connection: Connection, job: Job, by: str, reason: str, at: datetime) -> bool:
    """Make its wish for a cancel after a checkpoint a cancel. False: the wish was taken back, or it is over."""
    values = {"cancel_asked_at": at, "cancel_asked_by": storable(by), "reason": storable(reason), "next_at": None}
    stands = and_(jobs.c.cancel_after_at == job.cancel_after_at, jobs.c.cancel_asked_at.is_(None))
    return connection.execute(update(jobs).where(jobs.c.id == job.id, stands, _OPEN).values(values)).rowcount == 1


def never_mind(connection: Connection, job_id: str, by: str, at: datetime) -> bool:
    """Take the wish for a cancel after a checkpoint back, and hint at nothing of before. False: it ends already."""
    values = {"never_mind_at": at, "never_mind_by": storable(by), "cancel_after_at": None, "cancel_after_by": ""}
    mine = update(jobs).where(jobs.c.id == job_id, jobs.c.cancel_asked_at.is_(None), _OPEN)
    return connection.execute(mine.values({**values, "next_at": None})).rowcount == 1


def give_disk_up(connection: Connection, job_id: str, by: str, at: datetime) -> bool:
    """Write down who agreed that the disk of its VM goes, with all that it saved there. False: it was so before."""
    values = {"disk_given_up_at": at, "disk_given_up_by": storable(by)}
    mine = update(jobs).where(jobs.c.id == job_id, jobs.c.disk_given_up_at.is_(None))
    return connection.execute(mine.values(values)).rowcount == 1


def checkpoint(connection: Connection, job_ids: Collection[str]) -> dict[str, SeenCheckpoint]:
    """Returns the last look at the location of each; jobs without a look are left out."""
    rows = (row for some in chunks(set(job_ids)) for row in connection.execute(*_looks(some)))
    return {row.id: _seen(row) for row in rows}


@prepared
def _looks(job_ids: list[str]) -> Select[Any]:
    return select(*_LOOK).where(jobs.c.looked_at.is_not(None), jobs.c.id.in_(job_ids))


def save_look(connection: Connection, job_id: str, seen: SeenCheckpoint) -> SeenCheckpoint:
    """Keep how the last look at one job's location went, as `save_looks` does."""
    return save_looks(connection, {job_id: seen})[job_id]


def save_looks(connection: Connection, looks: Mapping[str, SeenCheckpoint]) -> dict[str, SeenCheckpoint]:
    """Keep how the last looks went, and the checkpoints for the jobs' timelines. What is stored is given back.

    After an error what was seen before stands. `advanced_at` is worked out here: when one that was written later than
    the one before was first seen. Raises KeyError for a job that does not exist.
    """
    before = {row.id: row for some in chunks(looks) for row in connection.execute(*_stored_looks(some))}
    kept = {job_id: _kept(seen, before[job_id]) for job_id, seen in looks.items()}
    checkpoint_rows.add_seen(connection, looks)
    if kept:
        values = [{"of_job": job_id, **_look_values(seen)} for job_id, seen in kept.items()]
        connection.execute(_SAVE_LOOK, values)
    return kept


@prepared
def _stored_looks(job_ids: list[str]) -> Select[Any]:
    return select(*_LOOK).where(jobs.c.id.in_(job_ids))


_SAVE_LOOK = update(jobs).where(jobs.c.id == bindparam("of_job"))


def _kept(seen: SeenCheckpoint, before: Row[*tuple[Any, ...]]) -> SeenCheckpoint:
    if seen.error:
        return replace(_seen(before), looked_at=seen.looked_at, error=seen.error)
    is_later = bool(seen.resume_from) and seen.written_at is not None
    if is_later and before.look_written_at is not None:
        is_later = seen.written_at > before.look_written_at
    return replace(
        seen,
        advanced_at=seen.looked_at if is_later else before.advanced_at,
        seen_at=seen.looked_at if seen.resume_from else None,
    )


def _look_values(stored: SeenCheckpoint) -> dict[str, object]:
    return {
        "looked_at": stored.looked_at,
        "look_error": storable(stored.error),
        "look_torn": storable(stored.torn),
        "look_resume_from": storable(stored.resume_from),
        "look_step": stored.step,
        "look_written_at": stored.written_at,
        "look_files": stored.files,
        "look_seen_at": stored.seen_at,
        "advanced_at": stored.advanced_at,
    }


_LOOK: tuple[ColumnElement[Any], ...] = (
    jobs.c.id,
    jobs.c.looked_at,
    jobs.c.look_error,
    jobs.c.look_torn,
    jobs.c.look_resume_from,
    jobs.c.look_step,
    jobs.c.look_written_at,
    jobs.c.look_files,
    jobs.c.look_seen_at,
    jobs.c.advanced_at,
)


def _seen(row: Row[*tuple[Any, ...]]) -> SeenCheckpoint:
    return SeenCheckpoint(
        looked_at=row.looked_at,
        resume_from=row.look_resume_from,
        step=row.look_step,
        written_at=row.look_written_at,
        advanced_at=row.advanced_at,
        torn=tuple(row.look_torn),
        error=row.look_error,
        files=row.look_files,
        seen_at=row.look_seen_at,
    )


def _job(row: Row[Any]) -> Job:
    return Job(
        id=row.id,
        spec=SPEC.validate_python(row.spec),
        recipe=RECIPE.validate_python(row.recipe),
        state=JobState(row.state),
        reason=row.reason,
        created_at=row.created_at,
        via=row.via,
        settled_at=row.settled_at,
        cancel_asked_at=row.cancel_asked_at,
        cancel_asked_by=row.cancel_asked_by,
        early=EarlyEnd(row.early_why) if row.early_why else None,
        early_reason=row.early_reason,
        cancel_after_at=row.cancel_after_at,
        cancel_after_by=row.cancel_after_by,
        never_mind_at=row.never_mind_at,
        never_mind_by=row.never_mind_by,
        next_at=row.next_at,
        disk_given_up_at=row.disk_given_up_at,
        disk_given_up_by=row.disk_given_up_by,
        gang_round=row.gang_round,
    )


def _conditions(filters: JobFilters) -> list[ColumnElement[bool]]:
    several = (
        (jobs.c.state, filters.state),
        (jobs.c.owner, filters.owner),
        (jobs.c.preset, filters.preset),
        (jobs.c.project, filters.project),
        (jobs.c.kind, filters.kind),
    )
    conditions: list[ColumnElement[bool]] = [column.in_(map(str, wanted)) for column, wanted in several if wanted]
    if filters.open is not None:
        over = [state.value for state in JobState if state.is_over]
        is_open = jobs.c.state.not_in(over)
        if filters.open:
            also = [_disk_kept()] if filters.or_disk_kept else []
            also += [jobs.c.settled_at >= filters.or_ended_since] if filters.or_ended_since is not None else []
            conditions.append(or_(is_open, *also))
        else:
            conditions.append(jobs.c.state.in_(over))
    return conditions


def _disk_kept() -> ColumnElement[bool]:
    """Selects jobs with a kept disk, as `kept_disks.attempt_of` has it: live attempts have an index of their own."""
    state = attempts.c.state.in_([AttemptState.ENDING.value, AttemptState.KEPT.value])
    held = select(attempts.c.job_id).where(text(LIVE_ATTEMPT), state)
    is_on_disk = jobs.c.spec[("checkpoint", "location")].as_string().startswith("/")
    ended = jobs.c.state.in_([JobState.FAILED.value, JobState.CANCELLED.value])
    is_training = jobs.c.kind == JobKind.TRAINING.value
    return and_(jobs.c.id.in_(held), ended, is_training, is_on_disk, jobs.c.disk_given_up_at.is_(None))
