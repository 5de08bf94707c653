"""The hourly rate of every instance, stored in the ledger and updated with it and with prices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, Update, bindparam, delete, select, tuple_, update

from costguard.db.bulk import CHUNK, chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import UNPRICED_RANK, burn_rates, instances
from costguard.db.upsert import upsert
from costguard.ledger import fleet_rows
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.fleet_rows import Burning, Filters, PresentInstance
from costguard.ledger.price_book import PriceBook
from costguard.model.instance import InstanceKey, ProvisioningModel, Status
from costguard.model.money import Money, Priced


@dataclass(frozen=True, slots=True)
class Basis:
    """The prices by which rates were computed (a digest of them), and the time within which they hold."""

    prices: str
    good_from: datetime | None
    good_until: datetime | None

    def holds(self, prices: str, moment: datetime) -> bool:
        return (
            self.prices == prices
            and (self.good_from is None or self.good_from <= moment)
            and (self.good_until is None or moment < self.good_until)
        )


@dataclass(frozen=True, slots=True)
class StoredRate:
    """The rate of one instance: `nanos` is the part that has a price."""

    instance_id: int
    running_since: datetime | None
    nanos: int
    is_whole: bool

    @property
    def columns(self) -> tuple[datetime | None, int, int]:
        rank = -self.nanos if self.is_whole else UNPRICED_RANK
        return self.running_since, self.nanos, rank


@remembers(burn_rates)
def basis(connection: Connection) -> Basis | None:
    """Returns the basis. None: no rates were ever computed."""
    row = connection.execute(_BASIS).one_or_none()
    return None if row is None else Basis(row.prices, row.good_from, row.good_until)


_BASIS = select(burn_rates)


def set_basis(connection: Connection, new: Basis) -> None:
    row = {"id": 1, "prices": new.prices, "good_from": new.good_from, "good_until": new.good_until}
    upsert(connection, burn_rates, [row], ["id"])


def drop_basis(connection: Connection) -> None:
    """The rates that are kept are of different moments."""
    connection.execute(delete(burn_rates))


def drop(connection: Connection, ids: Collection[int]) -> None:
    """Drops the rates of these instances, so that no basis holds until they are worked out again."""
    for some in chunks(ids):
        connection.execute(*_drop(some))


@prepared
def _drop(ids: list[int]) -> Update:
    there = (instances.c.gone_at.is_(None), instances.c.rate_rank.is_not(None))
    return update(instances).where(instances.c.id.in_(ids), *there).values(rate_rank=None)


def present_ids(connection: Connection) -> list[int]:
    """Returns the ids of all instances that are there."""
    return list(
        connection.scalars(select(instances.c.id).where(instances.c.gone_at.is_(None)).order_by(instances.c.id))
    )


@remembers(instances)
def are_complete(connection: Connection) -> bool:
    """Says whether each instance that is there has a rate."""
    first = connection.execute(*_first_rank(connection.dialect.name == "postgresql")).first()
    return first is None or first[0] is not None


@prepared
def _first_rank(is_postgresql: bool) -> Select[Any]:
    # By the first row of the index on ranks, where each database has its NULLs. Asked for a NULL alone, PostgreSQL
    # reads the whole table: most instances are gone, have none, and make it believe that one is found at once.
    rank = instances.c.rate_rank
    order = rank.desc() if is_postgresql else rank
    return select(rank).where(instances.c.gone_at.is_(None)).order_by(order).limit(1)


def ids_of(connection: Connection, keys: Collection[InstanceKey]) -> list[int]:
    by_project: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        by_project[key.project].add(key.gce_id)
    if len(by_project) > 1:
        return _ids_of_many(connection, sorted((key.project, key.gce_id) for key in keys))
    instance_ids: list[int] = []
    for project, gce_ids in by_project.items():
        for some in chunks(gce_ids):
            instance_ids += connection.scalars(*_ids_of(project, some))
    return instance_ids


def _ids_of_many(connection: Connection, pairs: Sequence[tuple[str, str]]) -> list[int]:
    key = tuple_(instances.c.project, instances.c.gce_id)
    return [
        instance_id
        for place in range(0, len(pairs), CHUNK)
        for instance_id in connection.scalars(select(instances.c.id).where(key.in_(pairs[place : place + CHUNK])))
    ]


@prepared
def _ids_of(project: str, gce_ids: list[str]) -> Select[Any]:
    return select(instances.c.id).where(instances.c.project == project, instances.c.gce_id.in_(gce_ids))


def save(connection: Connection, rates: Sequence[StoredRate]) -> int:
    """Saves rates, and returns how many of them were not stored already; the others are not written."""
    stored = {
        row[0]: tuple(row[1:])
        for some in chunks([rate.instance_id for rate in rates])
        for row in connection.execute(_KNOWN, {"of_ids": some})
    }
    new = [
        {"of_id": rate.instance_id, **dict(zip(_NAMES, rate.columns, strict=True))}
        for rate in rates
        if stored.get(rate.instance_id) != rate.columns
    ]
    if new:
        connection.execute(_SAVE, new)
    return len(new)


_NAMES = ("new_running_since", "new_rate_nanos", "new_rate_rank")
_COLUMNS = {name: instances.c[name.removeprefix("new_")] for name in _NAMES}
_KNOWN = select(instances.c.id, *_COLUMNS.values()).where(instances.c.id.in_(bindparam("of_ids", expanding=True)))
_SAVE = (
    update(instances)
    .where(instances.c.id == bindparam("of_id"))
    .values({column: bindparam(name) for name, column in _COLUMNS.items()})
)


_RULES = 4  # raised when the way rates are computed changes: all are computed again then


def are_current(connection: Connection, accrual: Accrual) -> bool:
    """Says whether the stored rates are those of this moment: by these prices, and of every instance there is."""
    known_basis = basis(connection)
    return (
        known_basis is not None and known_basis.holds(prices_of(accrual.book), accrual.now) and are_complete(connection)
    )


def keep(connection: Connection, now: datetime, changed: Collection[int]) -> int:
    """Work out the rates of these instances; how many were written: those that are stored already are not.

    Belongs into the transaction that changed them, so that no reader sees an instance without its rate.
    """
    return save(connection, list(_rates(connection, accrual_at(connection, now), changed))) if changed else 0


def of_present(
    connection: Connection, accrual: Accrual, filters: Filters, ids: Collection[int] | None = None
) -> list[tuple[PresentInstance, Priced]]:
    """Returns present instances with the hourly cost of each, computed here."""
    present = {row.id: row for row in fleet_rows.present(connection, filters, ids)}
    rates = accrual.rates_of(present, fleet_rows.open_storage(connection, ids))
    return [(row, rates[instance_id]) for instance_id, row in present.items()]


def burning(connection: Connection, accrual: Accrual, filters: Filters = Filters()) -> list[Burning]:
    """Present instances in a few groups with what they cost an hour at this moment."""
    if are_current(connection, accrual):
        return fleet_rows.burning_by(connection, filters)
    return grouped(of_present(connection, accrual, filters))


def grouped(present: Iterable[tuple[PresentInstance, Priced]]) -> list[Burning]:
    groups: dict[tuple[str, str, Status, ProvisioningModel], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for vm, rate in present:
        is_unpriced = not rate.whole or vm.unpriced != ""
        figures = (1, vm.started_at is not None, rate.amount.nanos, is_unpriced)
        of_group = groups[vm.project, vm.preset, vm.status, vm.provisioning_model]
        of_group[:] = [had + new for had, new in zip(of_group, figures, strict=True)]
    return [
        Burning(*key, count, running, Money(nanos), unpriced)
        for key, (count, running, nanos, unpriced) in sorted(groups.items())
    ]


def _rates(connection: Connection, accrual: Accrual, ids: Collection[int] | None) -> Iterator[StoredRate]:
    for vm, rate in of_present(connection, accrual, Filters(), ids):
        yield StoredRate(vm.id, vm.started_at, rate.amount.nanos, rate.whole)


def prices_of(book: PriceBook) -> str:
    return f"{_RULES}.{book.digest}"
