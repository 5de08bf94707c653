"""What runs now, and what a moment in the past cost: what budgets and anomalies ask of the ledger itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, func, select

from costguard.db.tables import charges, events, instances, lifetimes
from costguard.ledger.rows import shape_of
from costguard.model.instance import ProvisioningModel, Shape


@dataclass(frozen=True, slots=True)
class Whose:
    project: str
    preset: str
    owner: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """An open lifetime. `until` is when Google's own run-time limit ends it."""

    whose: Whose
    shape: Shape
    zone: str
    provisioning_model: ProvisioningModel
    until: datetime | None


def limited(connection: Connection) -> list[OpenRun]:
    """Those that a run-time limit will end."""
    return _open_runs(connection, instances.c.gone_at.is_(None), instances.c.termination_at.is_not(None))


def with_gpus(connection: Connection, project: str) -> list[OpenRun]:
    return _open_runs(connection, lifetimes.c.project == project, lifetimes.c.gpu_type.is_not(None))


def _open_runs(connection: Connection, *conditions: ColumnElement[bool]) -> list[OpenRun]:
    query = (
        select(lifetimes, instances.c.termination_at)
        .join_from(lifetimes, instances, instances.c.id == lifetimes.c.instance_id)
        .where(lifetimes.c.ended_at.is_(None), *conditions)
    )
    return [
        OpenRun(
            Whose(row.project, row.preset, row.owner, row.job),
            shape_of(row),
            row.zone,
            ProvisioningModel(row.provisioning_model),
            row.termination_at,
        )
        for row in connection.execute(query)
    ]


def machine_rate_at(connection: Connection, moment: datetime) -> dict[str, int]:
    """What the machines of each project cost an hour at that moment, in nano-dollars, by their stored charges."""
    columns = charges.c
    query = (
        select(instances.c.project, func.sum(columns.amount_nanos * 3600 // columns.seconds).label("rate"))
        .join_from(charges, lifetimes, lifetimes.c.id == columns.span_id)
        .join(instances, instances.c.id == lifetimes.c.instance_id)
        .where(
            columns.span == "lifetime",
            columns.day == moment.date(),
            columns.started_at <= moment,
            columns.ended_at > moment,
            columns.seconds > 0,
        )
        .group_by(instances.c.project)
    )
    return {row.project: int(row.rate) for row in connection.execute(query)}


def sudden_gpus(connection: Connection, project: str, without: timedelta) -> datetime | None:
    """Since when GPUs run in the project, if there were none for that long before; else None."""
    columns = lifetimes.c
    mine = (
        select(columns.started_at)
        .join_from(lifetimes, instances, instances.c.id == columns.instance_id)
        .where(instances.c.project == project, columns.gpu_count > 0)
    )
    since = connection.execute(
        mine.where(columns.ended_at.is_(None)).order_by(columns.started_at).limit(1)
    ).scalar_one_or_none()
    if since is None:
        return None
    earlier = mine.where(columns.started_at < since, columns.ended_at > since - without).limit(1)
    return since if connection.execute(earlier).first() is None else None


def told(connection: Connection, keys: Sequence[str]) -> dict[str, datetime]:
    """When those of these events happened that are recorded, by key."""
    query = select(events.c.key, events.c.occurred_at).where(events.c.key.in_(keys))
    return {row.key: row.occurred_at for row in connection.execute(query)}
