"""The stored charges of each VM, added up, and the VMs that accrue more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, Table, cast, func, or_, select

from costguard.db.scoped import within_scope
from costguard.db.tables import charge_days, charges, lifetimes, prices, storage_spans
from costguard.ledger.accrual import stand_by_day, uncharged_instances
from costguard.ledger.charged.spans import is_archived_by_day
from costguard.ledger.roll_up import parts_of_archived, parts_of_charges
from costguard.model.budget import Scope
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Attribution


@dataclass(frozen=True, slots=True)
class VmCharges:
    """The charges of one VM, of one owner, preset and job; of one day where rows are by day."""

    instance_id: int
    attribution: Attribution
    provisioning_model: str
    day: date | None
    figures: Sequence[int]  # nano-dollars of machines, GPUs and storage, and seconds


def charged(
    connection: Connection, first: date, last: date, scope: Scope, by_day: bool, among: Select[Any] | None = None
) -> list[VmCharges]:
    """The stored charges of the days [first, last], as the roll-up has them: storage counts as standard.

    `among` selects the rows of those VMs that count; None: all do.
    """
    charged_vms: list[VmCharges] = []
    whose = _Attributions()
    for spans in (lifetimes, storage_spans):
        mine = [*within_scope(spans, scope), *([] if among is None else [spans.c.instance_id.in_(among)])]
        query = _sums(spans).where(charges.c.day.between(first, last), *mine)
        if by_day:
            query = query.add_columns(charges.c.day).group_by(charges.c.day)
        charged_vms += _vms_of(connection, query, spans, whose, by_day)
        charged_vms += _vms_of(connection, _archived(spans, first, last, mine, by_day), spans, whose, by_day)
    return charged_vms


class _Attributions(dict[tuple[str, str, str], Attribution]):
    """Preset, owner and job: thousands of VMs share theirs."""

    def __missing__(self, names: tuple[str, str, str]) -> Attribution:
        self[names] = whose = Attribution(*names)
        return whose


def _vms_of(
    connection: Connection, query: Select[Any], spans: Table, whose: _Attributions, by_day: bool
) -> Iterator[VmCharges]:
    """Yields VMs from rows of keys, sums, and the day where rows are by day; storage counts as standard."""
    width = len(_keys(spans))
    for row in map(tuple, connection.execute(query)):  # rows of the library's own are slow to read by name
        model = row[4] if spans is lifetimes else ProvisioningModel.STANDARD.value
        day = row[-1] if by_day else None
        yield VmCharges(row[0], whose[row[1:4]], model, day, row[width : width + 4])


def _keys(spans: Table) -> list[ColumnElement[Any]]:
    names = ("instance_id", "preset", "owner", "job", "provisioning_model")
    return [spans.c[name] for name in names if name in spans.c]


def _added_up(parts: Mapping[str, ColumnElement[int]]) -> list[ColumnElement[int]]:
    names = ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
    return [cast(func.sum(parts[name]), BigInteger).label(name) for name in names]


def _archived(spans: Table, first: date, last: date, mine: Sequence[ColumnElement[bool]], by_day: bool) -> Select[Any]:
    """The same of archived charges, which may be of the same VMs."""
    keys = _keys(spans)
    query = (
        select(*keys, *_added_up(parts_of_archived(spans)))
        .join_from(charge_days, spans, charge_days.c.span_id == spans.c.id)
        .join(prices, prices.c.id == charge_days.c.price_id)
        .where(is_archived_by_day(spans), charge_days.c.day.between(first, last), *mine)
        .group_by(*keys)
    )
    return query.add_columns(charge_days.c.day).group_by(charge_days.c.day) if by_day else query


def _sums(spans: Table) -> Select[Any]:
    keys = _keys(spans)
    joined = select(*keys, *_added_up(parts_of_charges(spans))).join_from(
        charges, spans, charges.c.span_id == spans.c.id
    )
    return joined.where(*stand_by_day(spans)).group_by(*keys)


def accruing_ids(connection: Connection, until: datetime | None = None) -> list[int]:
    """VMs with spans that are open, or ended and not charged to their end; of open ones those not charged to `until`.

    A day that is over has been charged of nearly all, and its spend needs none of ten thousand VMs that run now.
    """
    instance_ids = set(uncharged_instances(connection))
    for spans in (lifetimes, storage_spans):
        query = select(spans.c.instance_id).where(spans.c.ended_at.is_(None))
        if until is not None:
            is_uncharged = or_(spans.c.charged_to.is_(None), spans.c.charged_to < until)
            query = query.where(spans.c.started_at < until, is_uncharged)
        instance_ids.update(connection.scalars(query))
    return sorted(instance_ids)
