"""The lease: one daemon acts at a time, by the database's clock.

A holder that froze wakes up believing it still holds; its epoch says otherwise, and its writes are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, literal_column, select, update

from costguard.errors import LeaseLost
from costguard.store.tables import leases
from costguard.store.types import Timestamp

if TYPE_CHECKING:
    from costguard.store.transaction import Database

# Both advance within a transaction; PostgreSQL's now() would not.
_NOW = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
}


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act. Every acquisition of a name has a higher epoch than the one before."""

    name: str
    holder: str
    epoch: int
    expires_at: datetime


def acquire(database: Database, name: str, holder: str, ttl: timedelta, now: datetime | None = None) -> Lease | None:
    """The lease, or None while another holder's has not expired.

    Acquiring again under the same name of holder is a new epoch: it may be a restarted process, while the
    old one is only frozen. Without `now`, the database's own time decides.
    """
    with database.write() as connection:
        moment = now or database_time(connection)
        held = connection.execute(select(leases).where(leases.c.name == name)).one_or_none()
        if held is not None and held.holder != holder and held.expires_at > moment:
            return None
        lease = Lease(name, holder, 1 if held is None else held.epoch + 1, moment + ttl)
        values = {"holder": lease.holder, "epoch": lease.epoch, "expires_at": lease.expires_at}
        if held is None:
            connection.execute(insert(leases).values(name=name, **values))
        else:
            connection.execute(update(leases).where(leases.c.name == name).values(**values))
        return lease


def renew(database: Database, lease: Lease, ttl: timedelta, now: datetime | None = None) -> Lease:
    """The same lease for longer. LeaseLost when it was taken over; merely expired, it still is ours."""
    with database.write(lease) as connection:
        renewed = replace(lease, expires_at=(now or database_time(connection)) + ttl)
        connection.execute(update(leases).where(leases.c.name == lease.name).values(expires_at=renewed.expires_at))
        return renewed


def release(database: Database, lease: Lease, now: datetime | None = None) -> None:
    """Lets others in at once. Harmless when the lease was lost."""
    with database.write() as connection:
        connection.execute(
            update(leases)
            .where(leases.c.name == lease.name, leases.c.epoch == lease.epoch)
            .values(expires_at=now or database_time(connection))
        )


def check_still_held(connection: Connection, lease: Lease) -> None:
    """Raises LeaseLost unless the lease is ours; for use inside a write transaction."""
    held = connection.execute(select(leases.c.holder, leases.c.epoch).where(leases.c.name == lease.name)).one_or_none()
    if held is None or held.epoch != lease.epoch:
        raise LeaseLost(
            f"The lease {lease.name!r} now belongs to {held.holder if held else 'nobody'}.",
            "Nothing was written. Another Costguard acts in this one's place; this one waits for its turn.",
        )


def database_time(connection: Connection) -> datetime:
    """What the database's clock says, whatever this machine's says."""
    moment: datetime = connection.execute(select(literal_column(_NOW[connection.dialect.name], Timestamp))).scalar_one()
    return moment
