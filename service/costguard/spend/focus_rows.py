"""Charges as FOCUS has them: a row for each that is stored, and for each that has accrued since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from costguard.db.bulk import chunks
from costguard.db.tables import instances
from costguard.db.transaction import Database
from costguard.ledger import accrual as accruing
from costguard.ledger import prices
from costguard.ledger.accrual import Accrual, AccruingSpan, accrual_at, kind_of
from costguard.ledger.charged.charges_of import NOWHERE, ArchivePlaces, SpanCharge, charges_of
from costguard.ledger.charged.vm_charges import accruing_ids
from costguard.ledger.labels.label_history import LabelChange, changes_of_vms, labels_at, with_keeper
from costguard.ledger.pricing import MINIMUM
from costguard.ledger.roll_up import LIFETIME, STORAGE
from costguard.model.budget import LabelFilter, Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Charge, Lifetime
from costguard.model.moments import day_start
from costguard.model.money import Money
from costguard.spend.focus import FocusCharge
from costguard.spend.spend import spend

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Vm:
    machine_type: str
    labels: Mapping[str, str]
    changes: Sequence[LabelChange]

    def labels_at(self, moment: datetime) -> Mapping[str, str]:
        return labels_at(self.labels, self.changes, moment) if self.changes else self.labels


class FocusCharges:
    """Makes charges of FOCUS from the ledger's: with the VMs that were learnt, their labels as they were, and prices.

    `wanted` is a filter by a label. A charge during which a label of its VM changed becomes one for each part.
    """

    def __init__(self, connection: Connection, wanted: LabelFilter | None = None) -> None:
        self.prices = prices.by_id(connection)
        self._wanted = wanted
        self._vms: dict[InstanceKey, _Vm] = {}

    def forget(self) -> None:
        """Lets go of the VMs, so that a day of a large fleet is in memory a part at a time."""
        self._vms.clear()

    def learn(self, connection: Connection, column: ColumnElement[Any], values: Collection[Any]) -> None:
        """Machine types, and labels as they are and were."""
        named = (instances.c[name] for name in ("id", "project", "gce_id", "machine_type", "labels", "keeper"))
        query = select(*named)
        for some in chunks(sorted(values)):
            rows = connection.execute(query.where(column.in_(some))).all()
            changes = changes_of_vms(connection, [row.id for row in rows])
            for row in rows:
                vm = _Vm(row.machine_type, with_keeper(row.labels, row.keeper), changes.get(row.id, ()))
                self._vms[InstanceKey(row.project, row.gce_id)] = vm

    def of_stored(self, one: SpanCharge) -> Iterator[FocusCharge]:
        vm = self._vms[one.key]
        quantity = Fraction(one.quantity_millis, 1000)
        charge = Charge(
            one.resource, one.day, one.started_at, one.ended_at, one.seconds, quantity, one.price_id, one.amount
        )
        whose, model, price = one.attribution, one.provisioning_model, self.prices[one.price_id]
        for labels, part in self._parts(vm, charge):
            yield FocusCharge(one.key, one.name, one.zone, vm.machine_type, labels, one.disk, whose, model, part, price)

    def of_span(self, span: AccruingSpan, charge: Charge) -> Iterator[FocusCharge]:
        run = span.span
        vm = self._vms[run.key]
        disk = "" if isinstance(run, Lifetime) else run.name
        model = ProvisioningModel(kind_of(span)[2])
        price = self.prices[charge.price_id]
        for labels, part in self._parts(vm, charge):
            yield FocusCharge(
                run.key, span.name, run.zone, vm.machine_type, labels, disk, span.attribution, model, part, price
            )

    def _parts(self, vm: _Vm, charge: Charge) -> Iterator[tuple[Mapping[str, str], Charge]]:
        """The charge by the labels that its VM had, as long as it had them; of a label's filter, what is within it."""
        for part in parted(charge, [change.changed_at for change in vm.changes]):
            labels = vm.labels_at(part.started_at)
            if self._wanted is None or self._wanted.holds(labels):
                yield labels, part


class FocusExport:
    """The charges of the UTC days [first, last] up to now, day by day.

    Each day is read in a transaction of its own, so that years of a large fleet neither fill the memory nor hold the
    database. What has accrued is fixed at the beginning: charges that are stored meanwhile are not counted twice.
    `unpriced` counts the lifetimes and disks that have no price, and so no
    row.
    """

    def __init__(
        self,
        database: Database,
        now: datetime,
        first: date,
        last: date,
        scope: Scope | None = None,
        archived: ArchivePlaces = NOWHERE,
    ) -> None:
        self._database, self._archived = database, archived
        self._first, self._last = first, min(last, now.date())
        self._scope = scope or Scope()
        with database.read() as connection:
            self._accrual: Accrual = accrual_at(connection, now)
            spans = accruing.accruing_spans(connection, accruing_ids(connection))
            self._accruing = [span for span in spans if self._is_wanted(span)]
            self._charges = FocusCharges(connection, self._scope.label)
            self._charges.learn(connection, instances.c.id, {span.instance_id for span in self._accruing})
            self.unpriced = spend(connection, self._accrual, first, last, [], scope).unpriced
        self._since = {(_kind(span), span.span.id or 0): span.since for span in self._accruing}

    def __iter__(self) -> Iterator[FocusCharge]:
        day = self._first
        while day <= self._last:
            with self._database.read() as connection:
                self._charges.prices = prices.by_id(connection)
                stored = list(self._stored(connection, day))
            yield from stored
            yield from self._accrued(day)
            day += _DAY

    def _stored(self, connection: Connection, day: date) -> Iterator[FocusCharge]:
        wanted = [one for one in charges_of(connection, day, day, self._archived) if self._counts(one)]
        self._charges.learn(connection, instances.c.gce_id, {one.key.gce_id for one in wanted})
        for one in wanted:
            yield from self._charges.of_stored(one)

    def _counts(self, one: SpanCharge) -> bool:
        """It is in the scope, and not among what has accrued."""
        whose = one.attribution
        since = self._since.get((one.kind, one.span_id))
        is_stored = since is None or one.started_at < since
        return is_stored and self._scope.holds(one.key.project, whose.preset, whose.owner, whose.job)

    def _accrued(self, day: date) -> Iterator[FocusCharge]:
        start = day_start(day)
        for span in self._accruing:
            end = span.span.ended_at
            if span.since < start + _DAY and (end is None or end + MINIMUM > start):
                bill = self._accrual.bill(span.span, max(span.since, start), start + _DAY)
                for charge in bill.charges:
                    yield from self._charges.of_span(span, charge)

    def _is_wanted(self, span: AccruingSpan) -> bool:
        whose = span.attribution
        return self._scope.holds(span.span.key.project, whose.preset, whose.owner, whose.job)


def parted(charge: Charge, moments: Iterable[datetime]) -> Iterator[Charge]:
    """A charge cut at those of these moments that it spans; its parts are shares of time, and whole together."""
    cuts = sorted({moment for moment in moments if charge.started_at < moment < charge.ended_at})
    length = (charge.ended_at - charge.started_at) // _MICROSECOND
    start, seconds, nanos = charge.started_at, 0, 0
    for cut in [*cuts, charge.ended_at]:
        share = Fraction((cut - charge.started_at) // _MICROSECOND, length) if cuts else Fraction(1)
        until_seconds, until_nanos = int(charge.seconds * share), int(charge.amount.nanos * share)
        amount = Money(until_nanos - nanos)
        yield replace(charge, started_at=start, ended_at=cut, seconds=until_seconds - seconds, amount=amount)
        start, seconds, nanos = cut, until_seconds, until_nanos


def _kind(span: AccruingSpan) -> str:
    return LIFETIME if isinstance(span.span, Lifetime) else STORAGE
