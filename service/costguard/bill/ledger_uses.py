"""The ledger's charges on a UTC day, as the comparison with the bill takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, Table, or_, select

from costguard.bill.lines import BilledThing, LedgerUse, UseShare
from costguard.db.tables import charge_days, charges, instances, lifetimes, prices, storage_spans
from costguard.ledger.accrual import stand_by_day
from costguard.ledger.billed.storage import MEMORY
from costguard.ledger.charged.spans import is_archived_by_day
from costguard.model.billing.bill import BilledKind
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import ADDRESS, Attribution
from costguard.model.moments import day_start

_FETCH = 2000  # rows of the database held at a time
_DAY = timedelta(days=1)
_Disk = tuple[str, str, str]  # project, zone, name


@dataclass(slots=True)
class _Use:
    name: str
    gce_id: str
    vm_name: str
    zone: str
    used_millis: int = 0
    seconds: int = 0
    holders: set[str] = field(default_factory=set)
    shares: dict[tuple[Attribution, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))


class LedgerDay:
    """The charges stored for one UTC day, archived ones included, with the ids of its disks."""

    def __init__(self, connection: Connection, day: date) -> None:
        self._connection, self._day = connection, day
        self._ids = self._disk_ids()

    def uses(self) -> list[LedgerUse]:
        """Each resource of each VM, and each disk, once. Storage counts as standard, as in the ledger's sums."""
        uses: dict[tuple[BilledThing, str], _Use] = {}
        for spans in (lifetimes, storage_spans):
            for row in self._charged(spans):
                disk = _disk(row)
                use = uses.setdefault(
                    (self._thing(row), row.resource), _Use(disk or row.vm_name, row.gce_id, row.vm_name, row.zone)
                )
                use.used_millis += row.seconds * row.quantity_millis
                use.seconds += row.seconds
                use.holders.add(row.gce_id)
                sold = row.provisioning_model if spans is lifetimes else ProvisioningModel.STANDARD.value
                share = use.shares[Attribution(row.preset, row.owner, row.job), sold]
                share[0] += row.amount_nanos
                share[1] += row.seconds
        return [_ledger_use(thing, resource, use) for (thing, resource), use in uses.items()]

    def unpriced(self) -> frozenset[BilledThing]:
        """VMs and disks that the ledger could not price whole."""
        things: set[BilledThing] = set()
        for spans in (lifetimes, storage_spans):
            query = select(*_names(spans)).join(instances, instances.c.id == spans.c.instance_id)
            for row in self._connection.execute(query.where(spans.c.unpriced != "", *self._of_day(spans))):
                things.add(self._thing(row))
        return frozenset(things)

    def _charged(self, spans: Table) -> Iterator[Row[Any]]:
        """Rows, then what was archived by day and price: of an old day the bill may still be read."""
        whose = (spans.c.preset, spans.c.owner, spans.c.job)
        model = (spans.c.provisioning_model,) if spans is lifetimes else ()
        rows = (
            select(*_figures(charges, charges.c.resource), *_names(spans), *whose, *model)
            .join_from(charges, spans, spans.c.id == charges.c.span_id)
            .where(charges.c.day == self._day, *stand_by_day(spans))
        )
        archived = (
            select(*_figures(charge_days, prices.c.resource), *_names(spans), *whose, *model)
            .join_from(charge_days, spans, spans.c.id == charge_days.c.span_id)
            .join(prices, prices.c.id == charge_days.c.price_id)
            .where(charge_days.c.day == self._day, is_archived_by_day(spans))
        )
        for query in (rows, archived):
            joined: Select[Any] = query.join(instances, instances.c.id == spans.c.instance_id)
            yield from self._connection.execution_options(yield_per=_FETCH).execute(joined)

    def _disk_ids(self) -> dict[_Disk, Collection[str]]:
        """Returns the day's disk ids by name: one of its VMs may have held the disk before its id was read."""
        columns = (storage_spans.c.project, storage_spans.c.zone, storage_spans.c.name, storage_spans.c.disk_id)
        query = select(*columns).where(storage_spans.c.disk_id.is_not(None), *self._of_day(storage_spans)).distinct()
        ids: dict[_Disk, set[str]] = defaultdict(set)
        for row in self._connection.execute(query):
            ids[row.project, row.zone, row.name].add(row.disk_id)
        return dict(ids)

    def _of_day(self, spans: Table) -> tuple[ColumnElement[bool], ...]:
        start = day_start(self._day)
        return spans.c.started_at < start + _DAY, or_(spans.c.ended_at.is_(None), spans.c.ended_at > start)

    def _thing(self, row: Row[Any]) -> BilledThing:
        disk = _disk(row)
        if not disk:
            return BilledThing(BilledKind.INSTANCE, row.project, row.gce_id)
        ids = self._ids.get((row.project, row.zone, disk), ())
        only = next(iter(ids)) if len(ids) == 1 else None
        return BilledThing(BilledKind.DISK, row.project, row.disk_id or only or disk)


def _names(spans: Table) -> tuple[ColumnElement[Any], ...]:
    disk = (storage_spans.c.name.label("disk"), storage_spans.c.disk_id) if spans is storage_spans else ()
    return spans.c.project, spans.c.zone, instances.c.gce_id, instances.c.name.label("vm_name"), *disk


def _figures(charged: Table, resource: Column[Any]) -> tuple[ColumnElement[Any], ...]:
    columns = charged.c
    return resource.label("resource"), columns.seconds, columns.quantity_millis, columns.amount_nanos


def _disk(row: Row[Any]) -> str:
    """The disk's name; "" for a run, saved memory and addresses, which are the VM's."""
    name: str = getattr(row, "disk", "")
    return "" if name in (MEMORY, ADDRESS) else name


def _ledger_use(thing: BilledThing, resource: str, use: _Use) -> LedgerUse:
    return LedgerUse(
        thing=thing,
        name=use.name,
        gce_id=use.gce_id,
        vm_name=use.vm_name,
        zone=use.zone,
        resource=resource,
        used=Fraction(use.used_millis, 1000),
        seconds=use.seconds,
        nanos=sum(nanos for nanos, _ in use.shares.values()),
        shares=tuple(UseShare(*key, nanos, seconds) for key, (nanos, seconds) in sorted(use.shares.items(), key=str)),
        holders=len(use.holders),
    )
