"""What bills now and what billed at past moments, for budgets: in groups, since ten thousand VMs are of a few kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, func, literal_column, select

from costguard.db.remembered import remembers
from costguard.db.tables import charges, facts, instances, lifetimes, storage_spans
from costguard.ledger.rows import shape_of
from costguard.model.instance import ProvisioningModel, Shape


@dataclass(frozen=True, slots=True)
class Whose:
    project: str
    preset: str
    owner: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """So many machines of one kind. `until` is when Google's own run-time limit ends them."""

    whose: Whose
    shape: Shape
    zone: str
    provisioning_model: ProvisioningModel
    until: datetime | None
    count: int


@dataclass(frozen=True, slots=True)
class Stored:
    """So many disks, or saved memories, of one kind."""

    whose: Whose
    resource: str | None
    size_mib: int
    zone: str
    count: int


@dataclass(frozen=True, slots=True)
class KeptRate:
    """Nano-dollars an hour. `until` is when Google's own run-time limit ends the machines."""

    whose: Whose
    until: datetime | None
    machine_nanos: int
    storage_nanos: int


def running(connection: Connection) -> list[Running]:
    """All machines that run now."""
    of = lifetimes.c
    columns = (
        instances.c.project,
        of.preset,
        of.owner,
        of.job,
        of.machine_type,
        of.vcpus,
        of.memory_mib,
        of.gpu_type,
        of.gpu_count,
        of.local_ssd_gib,
        of.zone,
        of.provisioning_model,
        instances.c.termination_at,
    )
    query: Select[Any] = (
        select(*columns, func.count().label("many"))
        .join_from(lifetimes, instances, instances.c.id == of.instance_id)
        .where(of.ended_at.is_(None))
        .group_by(*columns)
    )
    return [
        Running(
            whose=Whose(row.project, row.preset, row.owner, row.job),
            shape=shape_of(row),
            zone=row.zone,
            provisioning_model=ProvisioningModel(row.provisioning_model),
            until=row.termination_at,
            count=row.many,
        )
        for row in connection.execute(query)
    ]


def stored(connection: Connection) -> list[Stored]:
    """All storage that bills now."""
    of = storage_spans.c
    columns = (instances.c.project, of.preset, of.owner, of.job, of.resource, of.size_mib, of.zone)
    query = (
        select(*columns, func.count().label("many"))
        .join_from(storage_spans, instances, instances.c.id == of.instance_id)
        .where(of.ended_at.is_(None))
        .group_by(*columns)
    )
    return [
        Stored(Whose(row.project, row.preset, row.owner, row.job), row.resource, row.size_mib, row.zone, row.many)
        for row in connection.execute(query)
    ]


@remembers(instances)
def kept_rates(connection: Connection, by_owner: bool, by_job: bool) -> list[KeptRate]:
    """What all instances that are there cost an hour, by the rates that are kept beside them."""
    of = instances.c
    owner, job = of.owner if by_owner else literal_column("''"), of.job if by_job else literal_column("''")
    whose = [of.project, of.preset, *([owner] if by_owner else []), *([job] if by_job else [])]
    storage = func.sum(of.rate_nanos - of.machine_rate_nanos)
    query = (
        select(of.project, of.preset, owner, job, of.termination_at, func.sum(of.machine_rate_nanos), storage)
        .where(of.gone_at.is_(None))
        .group_by(*whose, of.termination_at)
    )
    return [KeptRate(Whose(*row[:4]), row[4], int(row[5]), int(row[6])) for row in connection.execute(query)]


def machine_rate_at(connection: Connection, moment: datetime) -> dict[str, int]:
    """What the machines of each project cost an hour at that moment, in nano-dollars, by their stored charges."""
    of = charges.c
    query = (
        select(instances.c.project, func.sum(of.amount_nanos * 3600 // of.seconds).label("rate"))
        .join_from(charges, lifetimes, lifetimes.c.id == of.span_id)
        .join(instances, instances.c.id == lifetimes.c.instance_id)
        .where(
            of.span == "lifetime",
            of.day == moment.date(),
            of.started_at <= moment,
            of.ended_at > moment,
            of.seconds > 0,
        )
        .group_by(instances.c.project)
    )
    return {row.project: int(row.rate) for row in connection.execute(query)}


def sudden_gpus(connection: Connection, project: str, without: timedelta) -> datetime | None:
    """Since when GPUs run in the project, if there were none for so long before; None when that is not so."""
    of = lifetimes.c
    mine = (
        select(of.started_at)
        .join_from(lifetimes, instances, instances.c.id == of.instance_id)
        .where(instances.c.project == project, of.gpu_count > 0)
    )
    since = connection.execute(mine.where(of.ended_at.is_(None)).order_by(of.started_at).limit(1)).scalar_one_or_none()
    if since is None:
        return None
    earlier = mine.where(of.started_at < since, of.ended_at > since - without).limit(1)
    return since if connection.execute(earlier).first() is None else None


def told(connection: Connection, keys: Sequence[str]) -> dict[str, datetime]:
    """When those of these facts happened that are recorded, by key."""
    query = select(facts.c.key, facts.c.occurred_at).where(facts.c.key.in_(keys))
    return {row.key: row.occurred_at for row in connection.execute(query)}
