"""The latest evidence of idleness: one row for each running VM."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, delete, select

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import MOST_AT_ONCE, remembers_each
from costguard.db.tables import instances, lifetimes, utilisation
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.ledger.rows import shape_of
from costguard.model.instance import InstanceKey, Shape
from costguard.model.managed.origin import VERTEX_IDLE
from costguard.model.utilisation import Evidence, IdleState

_SHAPE = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib")


@dataclass(frozen=True, slots=True)
class Running:
    """A VM whose lifetime is open."""

    id: int
    key: InstanceKey
    name: str
    preset: str
    shape: Shape
    started_at: datetime
    idle_shutdown: str = ""  # of a Colab runtime, as `VERTEX_IDLE` has it


@dataclass(frozen=True, slots=True)
class Measured:
    """Evidence as stored. `announced` is the state that the last event gave; None before the first.

    `counted_to`: up to when its samples are counted in the fleet's GPU use.
    """

    instance_id: int
    run_started_at: datetime
    measured_at: datetime
    good_until: datetime
    evidence: Evidence
    announced: IdleState | None = None
    counted_to: datetime | None = None


def running(connection: Connection, project: str) -> list[Running]:
    """The project's VMs and other resources that run, in no order."""
    return [
        Running(
            row.id,
            InstanceKey(project, row.gce_id),
            row.name,
            row.preset,
            shape_of(row),
            row.started_at,
            row.origin.get(VERTEX_IDLE, ""),
        )
        for row in connection.execute(*_running(project))
    ]


@prepared
def _running(project: str) -> Select[Any]:
    is_open = and_(lifetimes.c.instance_id == instances.c.id, lifetimes.c.ended_at.is_(None))
    shape = [lifetimes.c[name] for name in _SHAPE]
    columns = instances.c
    query: Select[Any] = select(
        columns.id, columns.gce_id, columns.name, columns.preset, columns.origin, lifetimes.c.started_at, *shape
    )
    return query.join(lifetimes, is_open).where(columns.project == project, columns.gone_at.is_(None))


def of_project(connection: Connection, project: str) -> dict[int, Measured]:
    """All rows of the project, by instance: also those of runs that have ended since."""
    return {row.instance_id: _measured(row) for row in connection.execute(*_of_project(project))}


@prepared
def _of_project(project: str) -> Select[Any]:
    return _query().where(instances.c.project == project)


def of_instances(connection: Connection, ids: Collection[int], now: datetime) -> dict[int, Measured]:
    """Returns the measurements of these instances that are still good at `now`; each is of the run that began at its
    `run_started_at`.
    """
    measured = _measured_of(connection, ids)
    return {instance_id: one for instance_id, one in measured.items() if one.good_until >= now}


@remembers_each(utilisation)
def _measured_of(connection: Connection, ids: Collection[int]) -> dict[int, Measured]:
    return {row.instance_id: _measured(row) for chunk in chunks(ids) for row in connection.execute(*_of_ids(chunk))}


@prepared
def _of_ids(ids: list[int]) -> Select[Any]:
    return _query().where(utilisation.c.instance_id.in_(ids))


def idle_runs(connection: Connection, now: datetime, ids: Collection[int] | None = None) -> dict[InstanceKey, Evidence]:
    """Returns those of all open runs that are idle by what is still good at `now`, or of these instances where they are
    few.
    """
    if ids is None or len(ids) > MOST_AT_ONCE:
        rows = connection.execute(*_idle_runs(now, None)).all()
        return {InstanceKey(row.project, row.gce_id): _evidence(row) for row in rows}
    runs = _idle_of_each(connection, ids).values()
    return {run.key: run.evidence for run in runs if run.good_until >= now}


@dataclass(frozen=True, slots=True)
class _IdleRun:
    key: InstanceKey
    evidence: Evidence
    good_until: datetime


@remembers_each(instances, lifetimes, utilisation)
def _idle_of_each(connection: Connection, ids: Collection[int]) -> dict[int, _IdleRun]:
    """Reads the open runs of these instances that are idle by what was measured last."""
    return {
        row.instance_id: _IdleRun(InstanceKey(row.project, row.gce_id), _evidence(row), row.good_until)
        for chunk in chunks(ids)
        for row in connection.execute(*_idle_runs(None, chunk))
    }


@prepared
def _idle_runs(good_at: datetime | None, ids: Sequence[int] | None) -> Select[Any]:
    query = (
        _query()
        .add_columns(instances.c.project, instances.c.gce_id)
        .join(
            lifetimes,
            and_(
                lifetimes.c.instance_id == utilisation.c.instance_id,
                lifetimes.c.ended_at.is_(None),
                lifetimes.c.started_at == utilisation.c.run_started_at,
            ),
        )
        .where(utilisation.c.state == IdleState.IDLE.value)
    )
    if good_at is not None:
        query = query.where(utilisation.c.good_until >= good_at)
    return query if ids is None else query.where(utilisation.c.instance_id.in_(ids))


def record(connection: Connection, rows: Sequence[Measured]) -> int:
    return upsert(connection, utilisation, [_row(row) for row in rows], ["instance_id"])


def forget(connection: Connection, ids: Collection[int]) -> None:
    for chunk in chunks(ids):
        connection.execute(delete(utilisation).where(utilisation.c.instance_id.in_(chunk)))


def _query() -> Select[Any]:
    return select(utilisation).join_from(utilisation, instances, utilisation.c.instance_id == instances.c.id)


def _row(measured: Measured) -> dict[str, Any]:
    return {
        "instance_id": measured.instance_id,
        "run_started_at": measured.run_started_at,
        "measured_at": measured.measured_at,
        "good_until": measured.good_until,
        "state": measured.evidence.state.value,
        "since": measured.evidence.since,
        "sentence": storable(measured.evidence.sentence),
        "is_weak": measured.evidence.is_weak,
        "gpu_mean_bp": measured.evidence.gpu_mean,
        "gpu_max_bp": measured.evidence.gpu_max,
        "cpu_max_bp": measured.evidence.cpu_max,
        "sm_mean_bp": measured.evidence.sm_mean,
        "sm_max_bp": measured.evidence.sm_max,
        "announced": "" if measured.announced is None else measured.announced.value,
        "counted_to": measured.counted_to,
    }


def _measured(row: Row[Any]) -> Measured:
    announced = IdleState(row.announced) if row.announced else None
    return Measured(
        row.instance_id,
        row.run_started_at,
        row.measured_at,
        row.good_until,
        _evidence(row),
        announced,
        row.counted_to,
    )


def _evidence(row: Row[Any]) -> Evidence:
    return Evidence(
        state=IdleState(row.state),
        since=row.since,
        sentence=row.sentence,
        is_weak=bool(row.is_weak),
        gpu_mean=row.gpu_mean_bp,
        gpu_max=row.gpu_max_bp,
        cpu_max=row.cpu_max_bp,
        sm_mean=row.sm_mean_bp,
        sm_max=row.sm_max_bp,
    )
