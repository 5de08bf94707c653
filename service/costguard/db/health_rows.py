"""Reads the holder of the lease, and the age of prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection, case, func, inspect, select

from costguard.db.lease import Lease, database_time
from costguard.db.tables import archives, events, leases, prices

PRICES_READ = "PricesRead"


@dataclass(frozen=True, slots=True)
class Holder:
    lease: Lease
    is_held: bool  # by the database's clock: False once it has expired


def holders(connection: Connection) -> list[Holder]:
    """Lists the holders, or last holders, of each lease."""
    now = database_time(connection)
    return [
        Holder(Lease(row.name, row.holder, row.epoch, row.expires_at), row.expires_at > now)
        for row in connection.execute(select(leases).order_by(leases.c.name))
    ]


def is_held_by(held: Sequence[Holder], name: str) -> bool:
    """Says whether this daemon holds the lease to act. "" is no daemon's name."""
    return bool(name) and any(holder.is_held and holder.lease.holder == name for holder in held)


def holders_if_any(connection: Connection) -> list[Holder]:
    """Returns `holders` of a database that may have no tables yet."""
    return holders(connection) if inspect(connection).has_table(leases.name) else []


def prices_recorded_at(connection: Connection) -> datetime | None:
    """When the catalogue was last read, or else when a price was last added; None when there is none."""
    added = select(func.max(prices.c.recorded_at))
    moment: datetime | None = catalogue_read_at(connection) or connection.scalar(added)
    return moment


def catalogue_read_at(connection: Connection) -> datetime | None:
    """Returns when the catalogue was last read; None when never."""
    moment: datetime | None = connection.scalar(
        select(func.max(events.c.occurred_at)).where(events.c.kind == PRICES_READ)
    )
    return moment


@dataclass(frozen=True, slots=True)
class ArchiveFiles:
    """The archived files. `open_files` hold rows that are still in the database as well: archiving was interrupted."""

    names: Sequence[str]
    open_files: int
    rows: int
    byte_count: int
    last_day: date
    made_at: datetime  # of the latest


def archive_files(connection: Connection) -> ArchiveFiles | None:
    """Returns the archived files; None where nothing was archived."""
    columns = (archives.c.file, archives.c.state, archives.c.row_count, archives.c.byte_count)
    query = select(*columns, archives.c.last_day, archives.c.made_at).where(archives.c.kind != "days")
    rows = connection.execute(query).all()
    if not rows:
        return None
    return ArchiveFiles(
        names=[row.file for row in rows],
        open_files=sum(row.state != "done" for row in rows),
        rows=sum(row.row_count for row in rows),
        byte_count=sum(row.byte_count for row in rows),
        last_day=max(row.last_day for row in rows),
        made_at=max(row.made_at for row in rows),
    )


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """The days of the history. `stale` are to be written again, as charges of them changed since."""

    days: int
    stale: int
    rows: int
    byte_count: int
    last_day: date
    written_at: datetime  # of the latest


def history_files(connection: Connection) -> HistoryFiles | None:
    """Returns the days that are in the history; None where no day was written."""
    columns = archives.c
    query = select(
        func.count(), func.sum(case((columns.state != "done", 1), else_=0)), func.sum(columns.row_count),
        func.sum(columns.byte_count), func.max(columns.last_day), func.max(columns.made_at),
    ).where(columns.kind == "days")  # fmt: skip
    days, stale, rows, size, last_day, written_at = connection.execute(query).one()
    return HistoryFiles(days, int(stale), int(rows), int(size), last_day, written_at) if days else None


def size(connection: Connection) -> int:
    """Returns the size of the database on its disk, in bytes."""
    if connection.dialect.name == "sqlite":
        pages, page_size = (
            connection.exec_driver_sql(f"PRAGMA {pragma}").scalar_one() for pragma in ("page_count", "page_size")
        )
        return int(pages) * int(page_size)
    return int(connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one())
