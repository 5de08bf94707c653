"""Reads Google's bill: files of an export, and daily its table, with the days, how much at a time, and what it cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

import structlog
from sqlalchemy import Connection, func, select

from costguard.bill.export_file import rows_of_file
from costguard.bill.export_row import judged
from costguard.bill.export_sums import ExportSums
from costguard.bill.store import BillRead, store
from costguard.db.lease import Lease
from costguard.db.tables import bill_partitions, events
from costguard.db.transaction import Database
from costguard.errors import Invalid
from costguard.events import audit_log
from costguard.model.event import Event, new_event
from costguard.model.ports import BillTable, Clock
from costguard.model.words import count_text

BILL_READ = "BillRead"
AHEAD = timedelta(days=2)
"""The time by which usage may begin after now: clocks differ, and a bill says nothing of a day to come."""
_AT_ONCE = 7  # days of one query: bounded in time and in bytes
_AGAIN = timedelta(days=2)  # a day is read again until it surely has all its appends
_MEGABYTE = 2**20

log = structlog.get_logger(__name__)


def read_files(url: str, files: Sequence[Path], now: datetime, *, is_whole: bool = False) -> BillRead:
    """Store what the files say, together. Rows that cannot be read are left out, counted and named.

    Raises Invalid and Conflict; a file that breaks off, or none of whose rows can be read, changes nothing.
    """
    from costguard.db import migrate  # only here: the daemon reads tables, and loads no alembic

    sums = ExportSums()
    for file in files:
        rows, left_out = sums.row_count, sums.left_out.row_count
        try:
            sums.add(rows_of_file(file, now + AHEAD))
        except OSError as error:
            raise Invalid(f"{file} cannot be read: {error.strerror or error}.", "Nothing was stored.") from None
        if sums.row_count == rows and sums.left_out.row_count > left_out:
            raise Invalid(f"{file} has no row that can be read. {sums.left_out.words}", "Nothing was stored.")
    origin = f"{files[0]}" if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    with closing(Database.open(url)) as database:
        migrate.check(database)
        read = store(database, sums.partitions(), origin, now, is_whole=is_whole)
        return read + BillRead(left_out=sums.left_out)


@dataclass(frozen=True, slots=True)
class BillReading:
    """Reads the export's table when it is due: the daemon's task. A reading that failed is tried at the next turn.

    `open_table` opens the table, whose pauses an event cuts short.
    """

    database: Database
    clock: Clock
    open_table: Callable[[threading.Event], AbstractContextManager[BillTable]]
    every: timedelta
    first_days: int

    def run(self, lease: Lease | None, stop: threading.Event) -> BillRead | None:
        """Reads the bill; None where it is not due. Raises CloudError, Invalid and StoreError."""
        now = self.clock.now()
        with self.database.read() as connection:
            last = last_read_at(connection)
        if last is not None and now - last < self.every:
            return None
        with self.open_table(stop) as table:
            return read_table(self.database, table, self.first_days, now, lease)


def last_read_at(connection: Connection) -> datetime | None:
    """Returns when a table was last read whole; None when never."""
    moment: datetime | None = connection.scalar(
        select(func.max(events.c.occurred_at)).where(events.c.kind == BILL_READ)
    )
    return moment


def read_table(
    database: Database, table: BillTable, first_days: int, now: datetime, fence: Lease | None = None
) -> BillRead:
    """Read what was appended since the last reading, and store it. Raises CloudError, Invalid and StoreError.

    What was stored before an error stays; the next reading goes on from there. `first_days` is how far back the first
    one goes.
    """
    with database.read() as connection:
        first = _first_day(connection, table.name, now.date(), first_days)
    done = BillRead()
    for start, after in _spans(first, now.date() + timedelta(days=1)):
        sums = ExportSums()
        sums.add(judged(row, now + AHEAD) for row in table.rows(start, after))
        # Every day of the query is whole: it holds all that the table has of it by now.
        done += store(database, sums.partitions(), table.name, now, fence, is_whole=True)
        done += BillRead(left_out=sums.left_out)
    done += BillRead(bytes_billed=table.bytes_billed)
    with database.write(fence) as connection:
        audit_log.append(connection, [_event(table.name, done, now)], now)
    log.info("bill", rows=done.row_count, days_changed=done.days_changed, bytes_billed=done.bytes_billed)
    return done


def _first_day(connection: Connection, name: str, today: date, first_days: int) -> date:
    """Goes back as far as at first where the last reading was by a version that kept no hours of commitments."""
    earliest = today - timedelta(days=first_days)
    last: date | None = connection.scalar(
        select(func.max(bill_partitions.c.day)).where(bill_partitions.c.origin == name)
    )
    if last is None:
        return earliest
    first = min(last, today) - _AGAIN
    readings = select(events.c.data).where(events.c.kind == BILL_READ).order_by(events.c.occurred_at.desc())
    for data in connection.scalars(readings):
        if data.get("table") == name:
            return first if data.get("hours") else min(first, earliest)
    return first


def _spans(first: date, after: date) -> Iterator[tuple[date, date]]:
    while first < after:
        end = min(first + timedelta(days=_AT_ONCE), after)
        yield first, end
        first = end


def _event(name: str, done: BillRead, now: datetime) -> Event:
    return new_event(
        BILL_READ,
        now,
        f"The bill was read from {name}: {count_text(done.row_count, 'row')} of "
        f"{count_text(done.days, 'export day')}, {done.days_changed} new or changed. "
        f"BigQuery billed {done.bytes_billed // _MEGABYTE:,} MiB."
        + (f" {done.left_out.words}" if done.left_out.row_count else ""),
        *(name, now.isoformat()),
        data={
            "table": name,
            "rows": done.row_count,
            "hours": True,  # of commitments are kept: days of earlier events have none
            "left_out": done.left_out.row_count,
            "bytes_billed": done.bytes_billed,
        },
    )
