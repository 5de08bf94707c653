"""The lease: one daemon acts at a time, by the database's clock.

A holder that froze wakes up believing it still holds; its epoch says otherwise, and its writes are refused. Leases of
projects fence what is recorded of each in the same way: see project_leases.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, Update, insert, literal_column, select, update

from costguard.db.prepared import prepared
from costguard.db.tables import leases, project_leases, replicas
from costguard.db.types import Timestamp
from costguard.errors import LeaseLost

if TYPE_CHECKING:
    from costguard.db.transaction import Database

# Both advance within a transaction; PostgreSQL's now() would not.
_NOW = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
}
# Counts the time that a suspended machine slept, too: another may have acted meanwhile.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# Between the check and the moment in which Google has the request.
_MARGIN_S = 1.0


def elapsed_s() -> float:
    return time.clock_gettime(_BOOT_CLOCK)


@dataclass(slots=True)
class Hold:
    """Until when nobody else can get this lease, in this process's own time. A renewal moves it for all copies."""

    until_s: float
    ttl: timedelta = timedelta()
    elapsed_s: Callable[[], float] = elapsed_s

    @property
    def is_to_be_renewed(self) -> bool:
        """Says whether a third of its life is over."""
        return self.until_s - self.elapsed_s() < self.ttl.total_seconds() * 2 / 3


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act, or to record a project. Every acquisition of a name has a higher epoch than the one before.

    `companion` is another lease of this process that a write under this one renews where renewals may not come in.
    """

    name: str
    holder: str
    epoch: int
    expires_at: datetime
    hold: Hold | None = field(default=None, compare=False, repr=False)
    unheld: timedelta = field(default=timedelta(), compare=False)  # for how long nobody had held it when it was got
    is_of_project: bool = False  # `name` is the project's
    companion: Lease | None = field(default=None, compare=False, repr=False)

    @property
    def is_certain(self) -> bool:
        """Says whether nobody else can act yet, without asking the database; for the last look before a call to Google.

        False only says that it is not certain: the process may have stood still, and another may have taken over.
        """
        return self.hold is None or self.hold.elapsed_s() < self.hold.until_s - _MARGIN_S


def acquire(database: Database, name: str, holder: str, ttl: timedelta, now: datetime | None = None) -> Lease | None:
    """The lease, or None while another holder's has not expired.

    Acquiring again under the same name of holder is a new epoch: it may be a restarted process, while the
    old one is only frozen. Without `now`, the database's own time decides.
    """
    asked_s = elapsed_s()
    with database.write() as connection:
        held = connection.execute(select(leases).where(leases.c.name == name)).one_or_none()
        moment = now or database_time(connection)
        if held is not None and held.holder != holder and held.expires_at > moment:
            if held.expires_at > moment + ttl:  # the clock was put back since: a holder that lives renews it
                now_held = (leases.c.name == name) & (leases.c.epoch == held.epoch)
                connection.execute(update(leases).where(now_held).values(expires_at=moment + ttl))
            return None
        hold = None if now is not None else Hold(asked_s + ttl.total_seconds(), ttl)
        unheld = max(timedelta(), moment - held.expires_at) if held is not None else timedelta()
        lease = Lease(name, holder, 1 if held is None else held.epoch + 1, moment + ttl, hold, unheld)
        values = {"holder": lease.holder, "epoch": lease.epoch, "expires_at": lease.expires_at}
        if held is None:
            connection.execute(insert(leases).values(name=name, **values))
            return lease
        # Renewals wait for no turn: one may have come in between, and then its holder is well.
        unchanged = (leases.c.name == name) & (leases.c.epoch == held.epoch) & (leases.c.expires_at == held.expires_at)
        return lease if connection.execute(update(leases).where(unchanged).values(**values)).rowcount else None


def is_worth_asking_for(database: Database, name: str, holder: str, ttl: timedelta) -> bool:
    """Says whether `acquire` would give or shorten it.

    A read, for daemons that ask every second and are mostly refused.
    """
    with database.read() as connection:
        held = connection.execute(select(leases).where(leases.c.name == name)).one_or_none()
        if held is None or held.holder == holder:
            return True
        return not timedelta() < held.expires_at - database_time(connection) <= ttl


def renew(database: Database, lease: Lease, ttl: timedelta, now: datetime | None = None) -> Lease:
    """The same lease for longer. LeaseLost when it was taken over; merely expired, it still is ours.

    On PostgreSQL it waits for no other writer, however large a pass is: it changes nothing that they rest on.
    """
    asked_s = elapsed_s()
    with database.write_out_of_turn() as connection:
        renewed = replace(lease, expires_at=(now or database_time(connection)) + ttl)
        if not connection.execute(*_renew(lease.name, lease.epoch, renewed.expires_at)).rowcount:
            check_still_held(connection, lease)
    if lease.hold is not None:
        lease.hold.until_s = asked_s + ttl.total_seconds()
    return renewed


def renew_in_passing(connection: Connection, lease: Lease) -> Callable[[], None]:
    """Renews the lease in a write under it, where that is due; call the returned function after the commit.

    SQLite has one writer, and lets those who wait come in by chance: a pass that writes one transaction after the other
    would keep the renewals out.
    """
    held = [(one, one.hold) for one in (lease, lease.companion) if one is not None and one.hold is not None]
    due = [(one, hold) for one, hold in held if hold.is_to_be_renewed]
    if not due:
        return lambda: None
    asked_s, now = elapsed_s(), database_time(connection)
    for one, hold in due:
        if one.is_of_project:
            renew_projects(connection, one.holder, now + hold.ttl)
        else:
            connection.execute(update(leases).where(leases.c.name == one.name).values(expires_at=now + hold.ttl))

    def committed() -> None:
        for _, hold in due:
            hold.until_s = asked_s + hold.ttl.total_seconds()

    return committed


def renew_projects(connection: Connection, holder: str, expires_at: datetime) -> None:
    """Renews the leases of all projects that this replica holds, and its own row. What was taken over stays so."""
    connection.execute(update(project_leases).where(project_leases.c.holder == holder).values(expires_at=expires_at))
    connection.execute(update(replicas).where(replicas.c.holder == holder).values(expires_at=expires_at))


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
    if lease.is_of_project:
        _check_project(connection, lease)
        return
    held = connection.execute(*_holder(lease.name)).one_or_none()
    if held is None or held.epoch != lease.epoch:
        raise LeaseLost(
            f"The lease {lease.name!r} now belongs to {held.holder if held else 'nobody'}.",
            "Nothing was written. Another Costguard acts in this one's place; this one waits for its turn.",
        )


def _check_project(connection: Connection, lease: Lease) -> None:
    """Compares epochs: what was handed over is still ours until another replica claims it."""
    held = connection.execute(*_holder_of_project(lease.name)).one_or_none()
    if held is None or lease.epoch != held.epoch:
        raise LeaseLost(
            f"Project {lease.name} is now watched by {held.holder if held and held.holder else 'another replica'}.",
            "Nothing was written of it here. That replica looks at it in this one's place.",
        )


@prepared
def _renew(name: str, epoch: int, expires_at: datetime) -> Update:
    ours = (leases.c.name == name) & (leases.c.epoch == epoch)
    return update(leases).where(ours).values(expires_at=expires_at)


@prepared
def _holder(name: str) -> Select[Any]:
    return select(leases.c.holder, leases.c.epoch).where(leases.c.name == name)


@prepared
def _holder_of_project(project: str) -> Select[Any]:
    return select(project_leases.c.holder, project_leases.c.epoch).where(project_leases.c.project == project)


def database_time(connection: Connection) -> datetime:
    """Reads the database's clock, whatever this machine's says."""
    moment: datetime = connection.execute(select(literal_column(_NOW[connection.dialect.name], Timestamp))).scalar_one()
    return moment
