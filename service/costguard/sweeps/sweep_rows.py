"""Rows of sweeps, of their members, and of the jobs that those have had."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, insert, select, text, update

from costguard.db import named as named_rows
from costguard.db.bulk import chunks
from costguard.db.named import RowFilters
from costguard.db.tables import OPEN_SWEEP, jobs, sweep_jobs, sweep_members, sweep_stops, sweeps
from costguard.db.types import storable
from costguard.jobs.rows.job_rows import RECIPE, SPEC
from costguard.model.job import JobCode, JobSpec, JobState
from costguard.model.launch import Recipe
from costguard.model.money import Money
from costguard.model.sweep import Halving, MemberJob, MemberStop, Sweep, SweepMember, SweepState

_OPEN = text(OPEN_SWEEP)
_CODE = TypeAdapter(JobCode)
_HALVING = TypeAdapter(Halving)


@dataclass(frozen=True, slots=True)
class NewMember:
    """A member with what its jobs are launched from."""

    number: int
    parameters: Mapping[str, str]
    spec: JobSpec
    recipe: Recipe


def add(
    connection: Connection, sweep: Sweep, members: Sequence[NewMember], idempotency_key: str | None, digest: str
) -> None:
    """The code, with its diff, is the same for all members, and is kept once."""
    code = members[0].spec.code
    row = {
        "id": sweep.id,
        "idempotency_key": storable(idempotency_key),
        "request_digest": digest,
        "name": storable(sweep.name),
        "owner": storable(sweep.owner),
        "project": storable(sweep.project),
        "preset": storable(sweep.preset),
        "at_once": sweep.at_once,
        "ceiling_nanos": None if sweep.ceiling is None else sweep.ceiling.nanos,
        "state": sweep.state.value,
        "reason": storable(sweep.reason),
        "via": storable(sweep.via),
        "code": None if code is None else storable(_CODE.dump_python(code, mode="json")),
        "created_at": sweep.created_at,
        "halving": None if sweep.halving is None else storable(_HALVING.dump_python(sweep.halving, mode="json")),
    }
    connection.execute(insert(sweeps).values(row))
    rows = [
        {
            "sweep_id": sweep.id,
            "number": member.number,
            "parameters": storable(list(member.parameters.items())),
            "spec": storable(SPEC.dump_python(replace(member.spec, code=None), mode="json")),
            "recipe": storable(RECIPE.dump_python(member.recipe, mode="json")),
        }
        for member in members
    ]
    connection.execute(insert(sweep_members), rows)


def of_key(connection: Connection, idempotency_key: str) -> tuple[Sweep, str] | None:
    """The sweep that came with this key, and the digest of the request; None: it is not known."""
    row = connection.execute(select(sweeps).where(sweeps.c.idempotency_key == storable(idempotency_key))).first()
    return None if row is None else (_sweep(row), row.request_digest)


def read(connection: Connection, sweep_id: str) -> Sweep | None:
    row = connection.execute(select(sweeps).where(sweeps.c.id == storable(sweep_id))).first()
    return None if row is None else _sweep(row)


def id_of(connection: Connection, named: str) -> str:
    """The id of the sweep with this id or name, as `db.named.id_of` chooses. Raises Conflict."""
    return named_rows.id_of(connection, sweeps, _OPEN, named, "sweeps")


def of_ids(connection: Connection, sweep_ids: Collection[str]) -> dict[str, Sweep]:
    """Returns the sweeps with these ids, as far as they exist."""
    rows = (
        row
        for some in chunks(set(sweep_ids))
        for row in connection.execute(select(sweeps).where(sweeps.c.id.in_(some)))
    )
    return {row.id: _sweep(row) for row in rows}


def open_ids(connection: Connection) -> list[str]:
    return list(connection.scalars(select(sweeps.c.id).where(_OPEN).order_by(sweeps.c.id)))


def page(connection: Connection, filters: RowFilters, after: tuple[datetime, str] | None, limit: int) -> list[Sweep]:
    return [_sweep(row) for row in named_rows.page(connection, sweeps, filters, after, limit)]


def members(connection: Connection, sweep_ids: Sequence[str]) -> dict[str, list[SweepMember]]:
    """Returns the members of each sweep, in the order of their numbers."""
    launched = jobs_of(connection, sweep_ids)
    stops = stops_of(connection, sweep_ids)
    result: dict[str, list[SweepMember]] = {sweep_id: [] for sweep_id in sweep_ids}
    columns = sweep_members.c
    for some in chunks(set(sweep_ids)):
        query = select(columns.sweep_id, columns.number, columns.parameters, columns.tries, columns.kept_by).where(
            sweep_members.c.sweep_id.in_(some)
        )
        for row in connection.execute(query.order_by(sweep_members.c.sweep_id, sweep_members.c.number)):
            had = tuple(launched.get((row.sweep_id, row.number), ()))
            member = SweepMember(
                number=row.number,
                parameters={str(name): str(value) for name, value in row.parameters},
                tries=row.tries,
                jobs=had,
                kept_by=row.kept_by,
                stop=stops.get(had[-1]) if had else None,
            )
            result[row.sweep_id].append(member)
    return result


def stops_of(connection: Connection, sweep_ids: Collection[str]) -> dict[str, MemberStop]:
    """Returns the stops by halving in these sweeps, by job."""
    return {
        row.job_id: MemberStop(
            job_id=row.job_id,
            stopped_at=row.stopped_at,
            step=row.step,
            unit=row.unit,
            reason=row.reason,
            rest=None if row.rest_s is None else timedelta(seconds=row.rest_s),
            gpus=row.gpus,
            saved=None if row.saved_nanos is None else Money(row.saved_nanos),
        )
        for some in chunks(set(sweep_ids))
        for row in connection.execute(select(sweep_stops).where(sweep_stops.c.sweep_id.in_(some)))
    }


def add_stop(connection: Connection, sweep_id: str, number: int, stop: MemberStop) -> None:
    """Together with the end of its job, in one transaction. A second stop of the same job breaks a constraint."""
    row = {
        "job_id": stop.job_id,
        "sweep_id": sweep_id,
        "number": number,
        "stopped_at": stop.stopped_at,
        "step": stop.step,
        "unit": stop.unit,
        "reason": storable(stop.reason),
        "rest_s": None if stop.rest is None else round(stop.rest.total_seconds()),
        "gpus": stop.gpus,
        "saved_nanos": None if stop.saved is None else stop.saved.nanos,
    }
    connection.execute(insert(sweep_stops), row)


def keep(connection: Connection, sweep_id: str, numbers: Collection[int], by: str, at: datetime) -> int:
    """Notes who keeps these members from halving, and returns how many were not kept before."""
    columns = sweep_members.c
    mine = (columns.sweep_id == sweep_id, columns.number.in_(list(numbers)), columns.kept_at.is_(None))
    return connection.execute(update(sweep_members).where(*mine).values(kept_at=at, kept_by=storable(by))).rowcount


def end_halving(connection: Connection, sweep_id: str, by: str, at: datetime) -> bool:
    """False: it was ended before, or the sweep has none."""
    mine = (sweeps.c.id == sweep_id, sweeps.c.halving_ended_at.is_(None), sweeps.c.halving.is_not(None))
    values = {"halving_ended_at": at, "halving_ended_by": storable(by)}
    return connection.execute(update(sweeps).where(*mine).values(values)).rowcount == 1


def code_of(connection: Connection, sweep_id: str) -> JobCode | None:
    """The code of all its members; None: they have none, or there is no such sweep."""
    stored = connection.scalar(select(sweeps.c.code).where(sweeps.c.id == storable(sweep_id)))
    return None if stored is None else _CODE.validate_python(stored)


def new_members(connection: Connection, sweep_id: str, numbers: Collection[int]) -> list[NewMember]:
    """Returns the data that jobs of these members are launched from, in the order of their numbers."""
    code = code_of(connection, sweep_id)
    query = select(sweep_members).where(sweep_members.c.sweep_id == sweep_id, sweep_members.c.number.in_(list(numbers)))
    return [
        NewMember(
            number=row.number,
            parameters={str(name): str(value) for name, value in row.parameters},
            spec=replace(SPEC.validate_python(row.spec), code=code),
            recipe=RECIPE.validate_python(row.recipe),
        )
        for row in connection.execute(query.order_by(sweep_members.c.number))
    ]


def states(connection: Connection, job_ids: Collection[str]) -> dict[str, MemberJob]:
    """Returns the states of these jobs."""
    columns = jobs.c
    query = select(columns.id, columns.state, columns.reason, columns.cancel_asked_at)
    rows = (row for some in chunks(set(job_ids)) for row in connection.execute(query.where(columns.id.in_(some))))
    return {row.id: MemberJob(row.id, JobState(row.state), row.reason, row.cancel_asked_at is not None) for row in rows}


def jobs_of(connection: Connection, sweep_ids: Collection[str]) -> dict[tuple[str, int], list[str]]:
    """The ids of all jobs that each member has had, the oldest first, by sweep and number."""
    result: dict[tuple[str, int], list[str]] = {}
    for some in chunks(set(sweep_ids)):
        query = select(sweep_jobs).where(sweep_jobs.c.sweep_id.in_(some))
        for row in connection.execute(query.order_by(sweep_jobs.c.sweep_id, sweep_jobs.c.number, sweep_jobs.c["try"])):
            result.setdefault((row.sweep_id, row.number), []).append(row.job_id)
    return result


def add_job(connection: Connection, sweep_id: str, number: int, attempt: int, job_id: str) -> None:
    """Together with the job, in one transaction. A second job for the same try breaks a constraint."""
    row = {"job_id": job_id, "sweep_id": sweep_id, "number": number, "try": attempt}
    connection.execute(insert(sweep_jobs).values(row))


def set_state(connection: Connection, sweep_id: str, state: SweepState, reason: str, now: datetime) -> bool:
    """False: it is over already, and stays as it is."""
    values = {"state": state.value, "reason": storable(reason), "settled_at": now if state.is_over else None}
    return connection.execute(update(sweeps).where(sweeps.c.id == sweep_id, _OPEN).values(values)).rowcount == 1


def ask_cancel(connection: Connection, sweep_id: str, by: str, reason: str, at: datetime) -> bool:
    """False: it is over, or it was asked before."""
    values = {"cancel_asked_at": at, "cancel_asked_by": storable(by), "reason": storable(reason)}
    mine = update(sweeps).where(sweeps.c.id == sweep_id, sweeps.c.cancel_asked_at.is_(None), _OPEN)
    return connection.execute(mine.values(values)).rowcount == 1


def resume(connection: Connection, sweep: Sweep, numbers: Collection[int], reason: str) -> None:
    """Adds one more try for each of these members.

    `sweep` has its new limits; it is open again, and nobody cancels it.
    """
    values = {
        "state": SweepState.RUNNING.value,
        "reason": storable(reason),
        "round": sweeps.c.round + 1,
        "settled_at": None,
        "cancel_asked_at": None,
        "cancel_asked_by": "",
        "at_once": sweep.at_once,
        "ceiling_nanos": None if sweep.ceiling is None else sweep.ceiling.nanos,
    }
    connection.execute(update(sweeps).where(sweeps.c.id == sweep.id).values(values))
    mine = (sweep_members.c.sweep_id == sweep.id, sweep_members.c.number.in_(list(numbers)))
    connection.execute(update(sweep_members).where(*mine).values(tries=sweep_members.c.tries + 1))


def _sweep(row: Row[Any]) -> Sweep:
    return Sweep(
        id=row.id,
        name=row.name,
        owner=row.owner,
        project=row.project,
        preset=row.preset,
        at_once=row.at_once,
        ceiling=None if row.ceiling_nanos is None else Money(row.ceiling_nanos),
        state=SweepState(row.state),
        reason=row.reason,
        created_at=row.created_at,
        via=row.via,
        round=row.round,
        settled_at=row.settled_at,
        cancel_asked_at=row.cancel_asked_at,
        cancel_asked_by=row.cancel_asked_by,
        halving=None if row.halving is None else _HALVING.validate_python(row.halving),
        halving_ended_at=row.halving_ended_at,
        halving_ended_by=row.halving_ended_by,
    )
