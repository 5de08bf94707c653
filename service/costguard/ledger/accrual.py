"""Computes the cost that has accrued since charges were last stored: the live part of every amount."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, Table, or_, select, text

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import database_of, remembers
from costguard.db.tables import UNCHARGED, charges, instances, lifetimes, storage_spans
from costguard.ledger import prices, rows
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import (
    MINIMUM,
    Bill,
    bill_span,
    gpu_rate_per_hour,
    price_age,
    rate_per_hour,
    storage_rate_per_hour,
)
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape, region_of
from costguard.model.lifetime import Attribution, Lifetime, StorageSpan
from costguard.model.money import Money, Priced
from costguard.model.price import OF_A_RUN, Price

_Id = TypeVar("_Id", int, str)

CostKind: TypeAlias = tuple[str, Attribution, str]
"""The project, whose money it is, and the provisioning model."""

_FEW = 5000
SHAPE = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib", "provisioning_model")


@dataclass(frozen=True, slots=True)
class AccruingSpan:
    """A lifetime or storage, whose money it is, and up to when its charges are stored (None: none are)."""

    instance_id: int
    name: str  # of the VM
    span: Lifetime | StorageSpan
    attribution: Attribution
    charged_to: datetime | None
    unpriced: str

    @property
    def since(self) -> datetime:
        """Returns the moment from which on it is not charged."""
        return self.charged_to or self.span.started_at


def kind_of(span: AccruingSpan) -> CostKind:
    """Storage counts as standard."""
    model = span.span.provisioning_model if isinstance(span.span, Lifetime) else ProvisioningModel.STANDARD
    return span.span.key.project, span.attribution, model.value


def accruing_spans(connection: Connection, instance_ids: Collection[int]) -> list[AccruingSpan]:
    """Lifetimes, then storage, of these instances that are open, or ended and not charged to their end."""
    # A page asks for the same VMs again, as a tuple: of an instance only what never changes is in it.
    return _remembered(connection, instance_ids) if isinstance(instance_ids, tuple) else _read(connection, instance_ids)


def _read(connection: Connection, instance_ids: Collection[int]) -> list[AccruingSpan]:
    return [
        accruing_span(row)
        for table in (lifetimes, storage_spans)
        for some in chunks(instance_ids)
        for row in connection.execute(*_accruing(table, some))
    ]


def accruing_span(row: Row[Any]) -> AccruingSpan:
    """Makes the span of a row that `select_lifetimes` or `select_storage` read."""
    span = lifetime_of(row) if hasattr(row, "machine_type") else storage_of(row)
    whose = attribution_of(row)
    return AccruingSpan(row.instance_id, row.instance_name, span, whose, row.charged_to, row.unpriced)


@prepared
def _accruing(table: Table, instance_ids: list[int]) -> Select[Any]:
    query = select_lifetimes() if table is lifetimes else select_storage()
    is_uncharged = or_(table.c.charged_to.is_(None), table.c.charged_to < table.c.ended_at)
    query = query.join(instances, instances.c.id == table.c.instance_id)
    return query.where(or_(table.c.ended_at.is_(None), is_uncharged), table.c.instance_id.in_(instance_ids))


_remembered = remembers(lifetimes, storage_spans)(_read)


def uncharged_ids(connection: Connection, table: Table, column: str = "id") -> list[int]:
    """Returns spans that ended and are not charged to their end: few, and only between two steps of a pass."""
    # SQLite cannot know how few there are, so the query names the index that holds nothing else.
    hint = f"INDEXED BY ix_{table.name}_uncharged" if connection.dialect.name == "sqlite" else ""
    # No part of this text comes from outside.
    query = text(f"SELECT {column} FROM {table.name} {hint} WHERE {UNCHARGED}")  # noqa: S608
    return list(connection.scalars(query))


@remembers(lifetimes, storage_spans)
def uncharged_instances(connection: Connection) -> frozenset[int]:
    """VMs that have such spans."""
    return frozenset(
        instance_id
        for table in (lifetimes, storage_spans)
        for instance_id in uncharged_ids(connection, table, "instance_id")
    )


@remembers(lifetimes, storage_spans)
def uncharged_spans(connection: Connection) -> list[AccruingSpan]:
    """Returns lifetimes, then storage, that ended and are not charged to their end.

    A page asks twice, for its sums and for what has no price in them. Of an instance only what never changes is in it.
    """
    spans = _read(connection, sorted(uncharged_instances(connection)))
    return [span for span in spans if span.span.ended_at is not None]


def among(connection: Connection, column: ColumnElement[_Id], wanted: Collection[_Id]) -> Collection[_Id]:
    """Returns those of many values that the column holds at all, by one look at its index; few are given back as they
    are.
    """
    if len(wanted) <= _FEW:
        return wanted
    return set(wanted).intersection(connection.scalars(select(column).distinct()))


def stand(spans: Table) -> tuple[ColumnElement[bool], ...]:
    """The charges of these spans that hold; those after `charged_to` are void, and about to be replaced."""
    kind = "lifetime" if spans is lifetimes else "storage"
    return charges.c.span == kind, charges.c.started_at < spans.c.charged_to


def stand_by_day(spans: Table) -> tuple[ColumnElement[bool], ...]:
    """Conditions like `stand`, for queries of a few days:

    SQLite would else read all charges of a kind and not the days' index.
    """
    kind = "lifetime" if spans is lifetimes else "storage"
    return charges.c.span.concat("") == kind, charges.c.started_at < spans.c.charged_to


def select_lifetimes() -> Select[Any]:
    return select(lifetimes, instances.c.gce_id, instances.c.name.label("instance_name"))


def select_storage() -> Select[Any]:
    return select(storage_spans, instances.c.gce_id, instances.c.name.label("instance_name"))


def attribution_of(row: Row[Any]) -> Attribution:
    return Attribution(row.preset, row.owner, row.job)


def lifetime_of(row: Row[Any]) -> Lifetime:
    return rows.lifetime_of(InstanceKey(row.project, row.gce_id), row)


def storage_of(row: Row[Any]) -> StorageSpan:
    return rows.storage_of(InstanceKey(row.project, row.gce_id), row)


_Kind: TypeAlias = tuple[Shape | str, ProvisioningModel | int, str]
_Rate: TypeAlias = tuple[Shape, str, ProvisioningModel]


@dataclass(frozen=True, slots=True)
class Cost:
    """The accrued cost, and in words the parts without a price ("" when all have one)."""

    amount: Money
    unpriced: str = ""


class RatedVm(Protocol):
    """A VM whose hourly cost is asked for; `started_at` is None where it does not run."""

    @property
    def shape(self) -> Shape: ...

    @property
    def zone(self) -> str: ...

    @property
    def provisioning_model(self) -> ProvisioningModel: ...

    @property
    def started_at(self) -> datetime | None: ...


class Accrual:
    """Bills and rates at one moment. Equal VMs are billed once, so that ten thousand cost what a few do."""

    def __init__(self, book: PriceBook, now: datetime) -> None:
        self.book = book
        self.now = now
        self._bills: dict[tuple[_Kind, datetime, datetime], Bill] = {}
        self._rates: dict[_Rate, Money | None] = {}
        self._gpu_rates: dict[_Rate, Money | None] = {}
        self._storage_rates: dict[tuple[str | None, int, str], Money | None] = {}

    def bill(self, span: Lifetime | StorageSpan, since: datetime | None, until: datetime | None = None) -> Bill:
        """Charges after `since` (None: from the start), up to now or an earlier `until`."""
        if span.ended_at is not None:
            # A run of ten seconds that ended a moment ago is billed its whole minute already.
            minimum = MINIMUM if isinstance(span, Lifetime) else timedelta()
            return bill_span(span, self.book, until or self.now + minimum, since)
        end = self.now if until is None else min(until, self.now)
        start = span.started_at if since is None else max(span.started_at, since)
        if isinstance(span, Lifetime):
            kind: _Kind = (span.shape, span.provisioning_model, span.zone)
        else:
            kind = (span.resource or f"?{span.name}", span.size_mib, span.zone)  # a bill may name an unknown disk
        bill = self._bills.get((kind, start, end))
        if bill is None:
            bill = self._bills[kind, start, end] = bill_span(span, self.book, end, since)
        return bill

    def cost(self, span: Lifetime | StorageSpan, since: datetime | None) -> Cost:
        """Returns the total of the bill up to now."""
        bill = self.bill(span, since)
        return Cost(bill.amount, bill.unpriced)

    def rate(self, shape: Shape, zone: str, provisioning_model: ProvisioningModel) -> Money | None:
        """Dollars an hour of a running machine now; None when a part of it has no price."""
        key = (shape, region_of(zone), provisioning_model)
        if key not in self._rates:
            self._rates[key] = rate_per_hour(*key, self.book, self.now)
        return self._rates[key]

    def rates_of(
        self, vms: Mapping[int, RatedVm], storage: Iterable[tuple[int, str | None, int, str]]
    ) -> dict[int, Priced]:
        """Returns the hourly cost of each of these VMs now: its machine if it runs, and its open storage.

        `storage` are rows of a VM, resource, MiB and zone; those of other VMs are left out.
        """
        rates = {
            vm_id: Priced() if vm.started_at is None else Priced.of(self.rate(vm.shape, vm.zone, vm.provisioning_model))
            for vm_id, vm in vms.items()
        }
        for vm_id, resource, size_mib, zone in storage:
            if vm_id in rates:
                rates[vm_id] += Priced.of(self.storage_rate(resource, size_mib, zone))
        return rates

    @property
    def price_note(self) -> str | None:
        """A sentence about sums: how old the prices are that came with Costguard; None once a catalogue was read."""
        age = self.book.age_of_all(self.now)
        return None if age is None else age.text

    def note_of(self, shape: Shape, zone: str, provisioning_model: ProvisioningModel) -> str | None:
        """Returns `price_note` for one VM: None where no price of it came with Costguard."""
        age = price_age(shape, region_of(zone), provisioning_model, self.book, self.now)
        return None if age is None else age.text

    def gpu_rate(self, shape: Shape, zone: str, provisioning_model: ProvisioningModel) -> Money | None:
        """The part of it that is billed as GPUs."""
        key = (shape, region_of(zone), provisioning_model)
        if key not in self._gpu_rates:
            self._gpu_rates[key] = gpu_rate_per_hour(*key, self.book, self.now)
        return self._gpu_rates[key]

    def storage_rate(self, resource: str | None, size_mib: int, zone: str) -> Money | None:
        key = (resource, size_mib, region_of(zone))
        if key not in self._storage_rates:
            self._storage_rates[key] = storage_rate_per_hour(*key, self.book, self.now)
        return self._storage_rates[key]


def figures_of(bill: Bill) -> Iterator[tuple[date, Sequence[int]]]:
    """Machine, GPU and storage in nano-dollars, and seconds, by day.

    As the daily sums have it: a run's seconds are those of its vCPUs, or of the whole VM.
    """
    for charge in bill.charges:
        is_gpu = charge.resource.startswith("gpu:")
        is_storage = charge.resource.startswith("disk:") or charge.resource == "suspended-memory"
        nanos = charge.amount.nanos
        figures = (
            0 if is_gpu or is_storage else nanos,
            nanos if is_gpu else 0,
            nanos if is_storage else 0,
            charge.seconds if charge.resource.endswith(OF_A_RUN) else 0,
        )
        yield charge.day, figures


def accrual_at(connection: Connection, now: datetime) -> Accrual:
    """Makes an accrual with all prices that the ledger holds."""
    return Accrual(book_of(connection), now)


# Sorting thousands of prices takes longer than the rest of a pass over a small fleet.
_books: WeakKeyDictionary[Engine, tuple[Sequence[Price], PriceBook]] = WeakKeyDictionary()


def book_of(connection: Connection) -> PriceBook:
    """All prices that the ledger holds; made again when they changed."""
    loaded, database = prices.load(connection), database_of(connection)
    kept = _books.get(database)
    if kept is None or kept[0] is not loaded:
        kept = _books[database] = loaded, PriceBook(loaded)
    return kept[1]
