"""The stored charges of each VM, added up, and the VMs that accrue more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Select, Table, cast, func, or_, select

from costguard.db.bulk import chunks
from costguard.db.tables import charge_days, charges, instances, lifetimes, prices, storage_spans
from costguard.ledger.accrual import stand_by_day, uncharged_instances, within_scope
from costguard.ledger.roll_up import parts_of_archived, parts_of_charges
from costguard.ledger.spans import is_archived_by_day
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.spend.spend_rows import Amounts, amounts_of


@dataclass(frozen=True, slots=True)
class VmCharges:
    """Of one VM, of one owner, preset and job; of one day where rows are by day."""

    instance_id: int
    attribution: Attribution
    provisioning_model: str
    day: date | None
    amounts: Amounts


def charged(
    connection: Connection, first: date, last: date, scope: Scope, by_day: bool, among: Select[Any] | None = None
) -> list[VmCharges]:
    """The stored charges of the days [first, last], as the roll-up has them: storage counts as standard.

    `among` selects the rows of those VMs that count; None: all do.
    """
    charged_vms: list[VmCharges] = []
    for spans in (lifetimes, storage_spans):
        mine = [*within_scope(spans, scope), *([] if among is None else [spans.c.instance_id.in_(among)])]
        query = _sums(spans).where(charges.c.day.between(first, last), *mine)
        if by_day:
            query = query.add_columns(charges.c.day).group_by(charges.c.day)
        charged_vms += _charges_of(spans, connection.execute(query), by_day)
        charged_vms += _archived(connection, spans, first, last, mine, by_day)
    return charged_vms


def _archived(
    connection: Connection,
    spans: Table,
    first: date,
    last: date,
    mine: Sequence[ColumnElement[bool]],
    by_day: bool,
) -> Iterator[VmCharges]:
    """The same of archived charges, which may be of the same VMs."""
    names = ("instance_id", "preset", "owner", "job", "provisioning_model")
    keys = [spans.c[name] for name in names if name in spans.c]
    sums = [cast(func.sum(part), BigInteger).label(name) for name, part in parts_of_archived(spans).items()]
    query = (
        select(*keys, *sums)
        .join_from(charge_days, spans, charge_days.c.span_id == spans.c.id)
        .join(prices, prices.c.id == charge_days.c.price_id)
        .where(is_archived_by_day(spans), charge_days.c.day.between(first, last), *mine)
        .group_by(*keys)
    )
    if by_day:
        query = query.add_columns(charge_days.c.day).group_by(charge_days.c.day)
    return _charges_of(spans, connection.execute(query), by_day)


def _charges_of(spans: Table, rows: Iterable[Row[Any]], by_day: bool) -> Iterator[VmCharges]:
    for row in rows:
        model = row.provisioning_model if spans is lifetimes else ProvisioningModel.STANDARD.value
        whose = Attribution(row.preset, row.owner, row.job)
        amounts = amounts_of((row.machine_nanos, row.gpu_nanos, row.storage_nanos, row.seconds))
        yield VmCharges(row.instance_id, whose, model, row.day if by_day else None, amounts)


def _sums(spans: Table) -> Select[Any]:
    names = ("instance_id", "preset", "owner", "job", "provisioning_model")
    kinds = [spans.c[name] for name in names if name in spans.c]
    sums = [cast(func.sum(part), BigInteger).label(name) for name, part in parts_of_charges(spans).items()]
    joined = select(*kinds, *sums).join_from(charges, spans, charges.c.span_id == spans.c.id)
    return joined.where(*stand_by_day(spans)).group_by(*kinds)


def accruing_ids(connection: Connection, until: datetime | None = None) -> list[int]:
    """VMs with spans that are open, or ended and not charged to their end; of open ones those not charged to `until`.

    A day that is over has been charged of nearly all, and its spend needs none of ten thousand VMs that run now.
    """
    instance_ids = uncharged_instances(connection)
    for spans in (lifetimes, storage_spans):
        query = select(spans.c.instance_id).where(spans.c.ended_at.is_(None))
        if until is not None:
            is_uncharged = or_(spans.c.charged_to.is_(None), spans.c.charged_to < until)
            query = query.where(spans.c.started_at < until, is_uncharged)
        instance_ids.update(connection.scalars(query))
    return sorted(instance_ids)


def ids_of(connection: Connection, keys: Collection[InstanceKey]) -> dict[InstanceKey, int]:
    """The rows of these VMs."""
    ids_by_key: dict[InstanceKey, int] = {}
    for some in chunks({key.gce_id for key in keys}):
        query = select(instances.c.id, instances.c.project, instances.c.gce_id).where(instances.c.gce_id.in_(some))
        ids_by_key |= {InstanceKey(row.project, row.gce_id): row.id for row in connection.execute(query)}
    return ids_by_key
