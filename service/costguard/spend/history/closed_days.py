"""The history: each closed day's charges as Parquet in a bucket or a folder, for other engines and for retention.

A day is written once it ended long enough ago, and again when a charge of it changed since. The file is put in its
place whole, read back, and only then noted. Killed at any step, the next run goes on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import structlog
from sqlalchemy import BigInteger, Connection, cast, func, select

from costguard.db.lease import Lease
from costguard.db.tables import daily_presets, daily_totals, instances
from costguard.db.transaction import Database
from costguard.errors import CheckpointError, Invalid, Missing, Unavailable
from costguard.ledger.archived.day_file import fetched, sha256_of
from costguard.ledger.archived.history_days import DONE, begin, history_days, name_of, outdate, settle
from costguard.ledger.charged.charges_of import ArchivePlaces, charges_by_project
from costguard.model.money import Money
from costguard.model.ports import Archives
from costguard.spend.focus import UNKNOWN
from costguard.spend.focus_rows import FocusCharges
from costguard.spend.history import day_rows
from costguard.spend.history.day_rows import Row, Written, history_row

log = structlog.get_logger(__name__)

_AT_ONCE = 5000  # charges whose VMs are in memory
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class History:
    """Where the history is, and how long after its end a UTC day is written."""

    store: Archives
    after: timedelta
    billing_account: str = UNKNOWN


@dataclass(frozen=True, slots=True)
class HistoryWritten:
    """The days that were written, and their rows."""

    days: int = 0
    rows: int = 0


def write_closed(
    database: Database,
    history: History,
    archive: Path,
    now: datetime,
    fence: Lease | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> HistoryWritten:
    """Writes every closed day that has no file, or whose file is not as the ledger any more, the oldest first.

    `archive` is the folder of older archives. A day that cannot be written keeps no other from being written; the first
    error is raised at the end. Raises CheckpointError at once where the bucket or folder cannot be used.
    """
    if find_spec("pyarrow") is None:
        text = "The history cannot be written: pyarrow is not installed."
        raise Unavailable(text, "Install costguard[parquet] on the server, or take [history] out of the settings.")
    check_files(database, history.store, fence)
    with database.read() as connection:
        due = _due(connection, (now - history.after).date())
    done, first_error = HistoryWritten(), None
    for day in due:
        if is_stopped():
            break
        try:
            written = write_day(database, history, archive, day, now, fence)
        except CheckpointError:
            raise  # its place does not take any day
        except (Invalid, Missing) as error:
            log.warning("history_day_not_written", day=day, error=str(error))
            first_error = first_error or error
            continue
        done = HistoryWritten(done.days + 1, done.rows + written.rows)
    if done.days:
        log.info("history_written", days=done.days, rows=done.rows)
    if first_error is not None:
        raise first_error
    return done


def check_files(database: Database, store: Archives, fence: Lease | None = None) -> None:
    """Has the days written again whose files are gone, or are not of the size that was written."""
    with database.read() as connection:
        days = [one for one in history_days(connection).values() if one.is_current]
    if not days:
        return
    sizes = {file.path: file.size for file in store.listing()}
    changed = [one.day for one in days if sizes.get(name_of(one.day)) != one.byte_count]
    if changed:
        log.warning("history_files_changed", days=len(changed), first=changed[0])
        with database.write(fence) as connection:
            outdate(connection, changed)


def write_day(
    database: Database, history: History, archive: Path, day: date, now: datetime, fence: Lease | None = None
) -> Written:
    """Writes one day: to a file here, into its place, read back, and noted. Raises CostguardError."""
    with database.write(fence) as connection:
        begin(connection, day, now)
    with tempfile.NamedTemporaryFile(prefix="costguard-history-", suffix=".parquet") as made:
        path = Path(made.name)
        with database.read() as connection:
            written = day_rows.write(_rows(connection, history, archive, day), path)
            total = _total(connection, day)
        if written.nanos != total:
            sums = f"Its charges come to ${Money(written.nanos).dollars}, its daily total to ${Money(total).dollars}"
            text = f"{day} cannot go into the history yet. {sums}: charges are about to be made again."
            raise Invalid(text, "It is written at the next run. Should it stay: costguard db verify.")
        sha256, size = sha256_of(path), path.stat().st_size
        with path.open("rb") as file:
            history.store.put(name_of(day), file)
    with fetched(history.store, day) as copy:
        if sha256_of(copy) != sha256 or day_rows.measured(copy, name_of(day)) != written:
            raise Invalid(f"{name_of(day)} in the history is not what was written.", "It is written again.")
    with database.write(fence) as connection:
        settle(connection, day, now, written.rows, size, sha256)
    return written


def _due(connection: Connection, last: date) -> list[date]:
    """Days before `last` with charges, now or when they were written, whose file is not current."""
    files = history_days(connection)
    charged = connection.scalars(select(daily_presets.c.day).where(daily_presets.c.day < last).distinct())
    return sorted(day for day in {*charged, *files} if day not in files or files[day].state != DONE)


def _total(connection: Connection, day: date) -> int:
    amount = daily_totals.c.machine_nanos + daily_totals.c.gpu_nanos + daily_totals.c.storage_nanos
    query = select(cast(func.coalesce(func.sum(amount), 0), BigInteger)).where(daily_totals.c.day == day)
    return int(connection.scalar(query) or 0)


def _rows(connection: Connection, history: History, archive: Path, day: date) -> Iterator[Row]:
    charged = FocusCharges(connection)
    charges = charges_by_project(connection, day, ArchivePlaces(archive, history.store))
    while some := list(islice(charges, _AT_ONCE)):
        charged.forget()
        charged.learn(connection, instances.c.gce_id, {one.key.gce_id for one in some})
        for one in some:
            for part in charged.of_stored(one):
                yield history_row(one, part, history.billing_account)
