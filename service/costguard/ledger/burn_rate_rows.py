"""What every instance costs an hour, stored with it, so that the fleet is ranked and added up by the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, select, update

from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.tables import UNPRICED_RANK, burn_rates, instances
from costguard.db.upsert import upsert


@dataclass(frozen=True, slots=True)
class Basis:
    """By which prices rates were worked out (a digest of them), and the time within which they hold."""

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
    """Of one instance: `nanos` is what can be priced of it, `machine_nanos` that without storage."""

    instance_id: int
    running_since: datetime | None
    nanos: int
    machine_nanos: int
    is_whole: bool

    @property
    def columns(self) -> tuple[datetime | None, int, int, int]:
        rank = -self.nanos if self.is_whole else UNPRICED_RANK
        return self.running_since, self.nanos, self.machine_nanos, rank


def basis(connection: Connection) -> Basis | None:
    """None: no rates were ever worked out."""
    row = connection.execute(select(burn_rates)).one_or_none()
    return None if row is None else Basis(row.prices, row.good_from, row.good_until)


def set_basis(connection: Connection, new: Basis) -> None:
    row = {"id": 1, "prices": new.prices, "good_from": new.good_from, "good_until": new.good_until}
    upsert(connection, burn_rates, [row], ["id"])


def drop_basis(connection: Connection) -> None:
    """The rates that are kept are of different moments."""
    connection.execute(delete(burn_rates))


def present_ids(connection: Connection) -> list[int]:
    """Of every instance that is there."""
    return list(
        connection.scalars(select(instances.c.id).where(instances.c.gone_at.is_(None)).order_by(instances.c.id))
    )


@remembers(instances)
def are_complete(connection: Connection) -> bool:
    """Whether each instance that is there has a rate."""
    rank = instances.c.rate_rank
    # By the first row of the index on ranks, where each database has its NULLs. Asked for a NULL alone, PostgreSQL
    # reads the whole table: most instances are gone, have none, and make it believe that one is found at once.
    order = rank.desc() if connection.dialect.name == "postgresql" else rank
    first = connection.execute(select(rank).where(instances.c.gone_at.is_(None)).order_by(order).limit(1)).first()
    return first is None or first[0] is not None


def ids_of(connection: Connection, project: str, gce_ids: Collection[str]) -> list[int]:
    instance_ids: list[int] = []
    for some in chunks(set(gce_ids)):
        instance_ids += connection.scalars(
            select(instances.c.id).where(instances.c.project == project, instances.c.gce_id.in_(some))
        )
    return instance_ids


def save(connection: Connection, rates: Sequence[StoredRate]) -> int:
    """How many of them were not stored already; the others are not written."""
    stored = {
        row[0]: tuple(row[1:])
        for some in chunks([rate.instance_id for rate in rates])
        for row in connection.execute(_KNOWN.where(instances.c.id.in_(some)))
    }
    new = [
        {"of_id": rate.instance_id, **dict(zip(_NAMES, rate.columns, strict=True))}
        for rate in rates
        if stored.get(rate.instance_id) != rate.columns
    ]
    if new:
        connection.execute(_SAVE, new)
    return len(new)


_NAMES = ("new_running_since", "new_rate_nanos", "new_machine_rate_nanos", "new_rate_rank")
_COLUMNS = {name: instances.c[name.removeprefix("new_")] for name in _NAMES}
_KNOWN = select(instances.c.id, *_COLUMNS.values())
_SAVE = (
    update(instances)
    .where(instances.c.id == bindparam("of_id"))
    .values({column: bindparam(name) for name, column in _COLUMNS.items()})
)
