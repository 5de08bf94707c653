"""The daily reading of an export's table: which days, how much at a time, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta

import structlog
from sqlalchemy import Connection, func, select

from costguard.bill.export_row import judged
from costguard.bill.export_sums import ExportSums
from costguard.bill.store import BillRead, store
from costguard.db.lease import Lease
from costguard.db.tables import bill_partitions, events
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.model.event import Event, new_event
from costguard.model.ports import BillTable
from costguard.model.words import count_text

BILL_READ = "BillRead"
AHEAD = timedelta(days=2)
"""The time by which usage may begin after now: clocks differ, and a bill says nothing of a day to come."""
_AT_ONCE = 7  # days of one query: bounded in time and in bytes
_AGAIN = timedelta(days=2)  # a day is read again until it surely has all its appends
_MEGABYTE = 2**20

log = structlog.get_logger(__name__)


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
    last = connection.scalar(select(func.max(bill_partitions.c.day)).where(bill_partitions.c.origin == name))
    return today - timedelta(days=first_days) if last is None else min(last, today) - _AGAIN


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
            "left_out": done.left_out.row_count,
            "bytes_billed": done.bytes_billed,
        },
    )
