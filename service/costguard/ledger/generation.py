"""The generation of the database, which a restore raises, how far it has come, and where it was last opened."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, insert, inspect, select, text, update
from sqlalchemy.exc import NotSupportedError, ProgrammingError

from costguard.db.mark_file import LedgerMark
from costguard.db.remembered import remembers
from costguard.db.tables import (
    changes,
    events,
    installation,
    leases,
    metadata,
    project_leases,
    replicas,
    sessions,
    sign_in_links,
    stops,
)
from costguard.errors import DatabaseUnreachable
from costguard.events.audit_log import append
from costguard.model.action import StopOutcome
from costguard.model.event import Event
from costguard.model.generation import FIRST, Cause, Generation

_ROW = 1
_INSTALLATION = select(installation).where(installation.c.id == _ROW)
_WRITE = update(installation).where(installation.c.id == _ROW)  # whatever it is run with
ID_GAP = 1_000_000  # more than a ledger gains between a backup and its restore
MOST_CHANGES = 10**12  # of a table in one generation


def _read(connection: Connection) -> Generation:
    row = connection.execute(_INSTALLATION).one_or_none()
    if row is None:
        return Generation()
    return Generation(row.generation, row.began_at, Cause(row.cause) if row.cause else None, row.backup_at)


read = remembers(installation)(_read)  # only changes of these columns count, not the mark's


def read_if_any(connection: Connection) -> Generation:
    """Reads as `read` does, of a database that may be older than its table."""
    return _read(connection) if inspect(connection).has_table(installation.name) else Generation()


@dataclass(frozen=True, slots=True)
class Reached:
    """The mark that the database has reached, and the timeline of its server as it was stored; None: not known."""

    mark: LedgerMark
    timeline: int | None


def reached(connection: Connection) -> Reached:
    row = connection.execute(_REACHED).one_or_none()
    return Reached(LedgerMark(FIRST, 0), None) if row is None else Reached(LedgerMark(*row[:2]), row.timeline)


_REACHED = select(installation.c.generation, installation.c.mark, installation.c.timeline).where(
    installation.c.id == _ROW
)


def why_older(
    connection: Connection, reached: Reached, seen: LedgerMark | None, left: Collection[LedgerMark | None]
) -> str | None:
    """Explains why the database is older than it was; None: as far as anyone can tell it is not.

    `seen` is the latest mark of which anything is known; `left` are those that this guard left there, or perhaps did.
    """
    mark = reached.mark
    if seen is not None and mark < seen:
        if mark.generation < seen.generation:
            return f"it is of generation {mark.generation}, and generation {seen.generation} had begun"
        return f"its guard had counted to {seen.number}, and it stands at {mark.number}"
    if was_put_back(connection):
        return "its rows were put back by another program"
    before, now = reached.timeline, timeline_of(connection)
    # A standby server that took over with all that this guard wrote has lost nothing.
    if None not in (before, now) and before != now and mark not in left:
        return f"its server went from timeline {before} to {now} unseen, as a recovery to an earlier moment does"
    return None


def count_on(connection: Connection, before: LedgerMark) -> LedgerMark:
    """Counts the next mark, within a write of the guard that acts; `before` is the one that this write has read."""
    after = LedgerMark(before.generation, before.number + 1)
    _write(connection, mark=after.number, timeline=timeline_of(connection))
    return after


def was_put_back(connection: Connection) -> bool:
    """Says whether another program wrote the row last, as COPY, pg_restore and a dump's INSERT do. Always False of
    SQLite.

    The id of the transaction that wrote a row is in its `xmin`, also once the row is frozen, since PostgreSQL 9.4
    (https://www.postgresql.org/docs/current/routine-vacuuming.html). VACUUM FULL and CLUSTER keep it, too.
    """
    if connection.dialect.name != "postgresql":
        return False
    row = connection.execute(
        text("SELECT xmin::text::bigint AS writer, written_by FROM installation WHERE id = :id"), {"id": _ROW}
    ).one_or_none()
    return row is not None and row.written_by is not None and row.written_by != row.writer


def timeline_of(connection: Connection) -> int | None:
    """Returns the timeline of the PostgreSQL server, which each promotion and each recovery to a moment in the past
    raises.

    None of SQLite, and where a managed server lets nobody ask. It is that of the log that is written now, since
    pg_control has it from the next checkpoint on (https://www.postgresql.org/docs/current/continuous-archiving.html,
    Timelines).

    Raises DatabaseUnreachable while the server recovers, or stands by: it takes no writes, and a timeline comes after.
    """
    if connection.dialect.name != "postgresql":
        return None
    if connection.scalar(text("SELECT pg_is_in_recovery()")):
        raise DatabaseUnreachable(
            "The PostgreSQL server is in recovery, so that nothing can be written.",
            "Wait until it is over. If it is a standby server, name the primary one, or promote it.",
        )
    name = _allowed(connection, "SELECT pg_walfile_name(pg_current_wal_lsn())")
    return None if name is None else int(name[:8], 16)


def home_of(connection: Connection) -> str:
    """Where this database is, as a digest: the file itself, or the server and its database.

    A copy of the file has another inode, and a dump that was restored into a new database another oid.
    """
    if connection.dialect.name == "sqlite":
        file = connection.exec_driver_sql("PRAGMA database_list").one()[2]
        place = f"{Path(file).resolve()}|{Path(file).stat().st_ino}"
    else:
        oid = connection.scalar(text("SELECT oid FROM pg_database WHERE datname = current_database()"))
        place = f"{_server_of(connection)}|{oid}"
    return hashlib.sha256(place.encode()).hexdigest()[:32]


def _server_of(connection: Connection) -> str:
    """Returns the server's own identifier; "" where a managed one lets nobody ask."""
    return _allowed(connection, "SELECT system_identifier FROM pg_control_system()") or ""


def _allowed(connection: Connection, query: str) -> str | None:
    """Queries PostgreSQL; None where it does not let this user ask. The transaction goes on."""
    connection.execute(text("SAVEPOINT asking"))
    try:
        answer = str(connection.scalar(text(query)))
    except (ProgrammingError, NotSupportedError):
        answer = None
        connection.execute(text("ROLLBACK TO SAVEPOINT asking"))
    connection.execute(text("RELEASE SAVEPOINT asking"))
    return answer


def is_elsewhere(connection: Connection, home: str) -> bool:
    """Says whether the database was last opened to act in another place than this."""
    stored_home = connection.scalar(select(installation.c.home).where(installation.c.id == _ROW))
    return bool(stored_home) and stored_home != home


def leave_home(connection: Connection) -> None:
    """It was restored on purpose: where it is opened next is where it is at home."""
    _write(connection, home="")


def free_leases(connection: Connection, now: datetime) -> None:
    """No holder of a lease from before the backup acts again, and the epochs since are skipped."""
    for table in (leases, project_leases):
        connection.execute(update(table).values(expires_at=now, epoch=table.c.epoch + ID_GAP))
    connection.execute(delete(replicas))


def settle_in(connection: Connection, home: str) -> None:
    """Remember where the database is, if that is new."""
    timeline = timeline_of(connection)
    row = connection.execute(
        select(installation.c.home, installation.c.timeline).where(installation.c.id == _ROW)
    ).one_or_none()
    if row is None or (row.home, row.timeline) != (home, timeline):
        _write(connection, home=home, timeline=timeline)


def begin(connection: Connection, new: Generation, event: Event, now: datetime) -> None:
    """Write down that a generation begins, and make what the one before left pending safe.

    Ids that the lost time may have given out are not given out again where the database can skip them: those of events
    on both, since receivers of webhooks know events by them, and all on PostgreSQL.
    """
    _write(
        connection,
        generation=new.number,
        began_at=new.began_at,
        cause=new.cause.value if new.cause is not None else "",
        backup_at=new.backup_at,
    )
    _skip_ids(connection)
    # Processes that read on know what they remember by these numbers, and the lost time had some of them. So no number
    # is of two generations, also where the same copy is put back twice.
    of_generation = changes.c.number % MOST_CHANGES
    connection.execute(update(changes).values(number=of_generation + new.number * MOST_CHANGES))
    _append_far_on(connection, event, now)
    # A session that ended since the backup stays ended, and a link that was used since stays used.
    connection.execute(delete(sessions))
    connection.execute(delete(sign_in_links))


def withdraw_stops(connection: Connection, why: str, now: datetime) -> int:
    """Stops that Google may not have been asked for are over. What it accepted is settled by the ledger."""
    pending = [StopOutcome.INTENDED.value, StopOutcome.UNKNOWN.value]
    columns = stops.c
    mine = update(stops).where(columns.outcome.in_(pending), columns.settled_at.is_(None))
    done = connection.execute(mine.values(outcome=StopOutcome.NOT_NEEDED.value, settled_at=now, error=why))
    return done.rowcount


def _write(connection: Connection, **values: Any) -> None:
    """Change the row, or make it. On PostgreSQL it then names the transaction that wrote it: this one.

    By a second statement, as a savepoint is a transaction of its own: what the first one wrote bears the right id.
    """
    if not connection.execute(_WRITE, values).rowcount:
        connection.execute(insert(installation).values(**{"id": _ROW, "generation": FIRST, **values}))
    if connection.dialect.name == "postgresql":
        connection.execute(text("UPDATE installation SET written_by = xmin::text::bigint WHERE id = :id"), {"id": _ROW})


def _append_far_on(connection: Connection, event: Event, now: datetime) -> None:
    """Events that follow have higher ids than this one, on both databases."""
    last = connection.scalar(select(func.max(events.c.id))) or 0
    append(connection, [event], now)
    at = last + ID_GAP
    connection.execute(update(events).where(events.c.key == event.key).values(id=at))
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT setval(pg_get_serial_sequence('events', 'id'), :at)"), {"at": at})


def _skip_ids(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        return
    for table in metadata.sorted_tables:
        if table.autoincrement_column is None or table is events:
            continue
        column = table.autoincrement_column.name
        last = connection.scalar(select(func.max(table.c[column]))) or 0
        sequence = text("SELECT setval(pg_get_serial_sequence(:table, :column), :at)")
        connection.execute(sequence, {"table": table.name, "column": column, "at": last + ID_GAP})
