"""The days whose charges are in the history outside the database, and which of these files are as the ledger is.

A day has one file, and that file one row in `archives` of the kind "days". Its state is "done" while the file holds
what the ledger holds of the day, "stale" once a charge of the day changed since, and "writing" while it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection, insert, select, update

from costguard.db.bulk import chunks
from costguard.db.tables import archives

DAYS = "days"
DONE, STALE, WRITING = "done", "stale", "writing"


@dataclass(frozen=True, slots=True)
class HistoryDay:
    """A day's file, by the UTC day. `rows`, `byte_count` and `sha256` are of the file last written whole."""

    id: int
    day: date
    state: str
    written_at: datetime
    rows: int
    byte_count: int
    sha256: str

    @property
    def is_current(self) -> bool:
        return self.state == DONE


def name_of(day: date) -> str:
    """The file of a day, as Hive names partitions, which DuckDB, BigQuery and pandas read as a column `day`."""
    return f"day={day.isoformat()}/charges.parquet"


def history_days(connection: Connection) -> Mapping[date, HistoryDay]:
    """All days that have a file, or are about to, in their order."""
    rows = connection.execute(select(archives).where(archives.c.kind == DAYS).order_by(archives.c.first_day))
    return {
        row.first_day: HistoryDay(
            row.id, row.first_day, row.state, row.made_at, row.row_count, row.byte_count, row.sha256
        )
        for row in rows
    }


def begin(connection: Connection, day: date, now: datetime) -> None:
    """Notes that the day's file is about to be written: a charge that changes meanwhile makes it stale."""
    mine = archives.c.file == name_of(day)
    if not connection.execute(update(archives).where(mine).values(state=WRITING)).rowcount:
        nothing = {"row_count": 0, "byte_count": 0, "sha256": ""}
        span = {"first_day": day, "last_day": day, "made_at": now, "through_at": now}
        connection.execute(insert(archives).values(kind=DAYS, file=name_of(day), state=WRITING, **span, **nothing))


def settle(connection: Connection, day: date, now: datetime, rows: int, byte_count: int, sha256: str) -> bool:
    """Notes the file that was written and verified. Returns False where a charge of the day changed meanwhile."""
    mine = archives.c.file == name_of(day)
    written = {"made_at": now, "through_at": now, "row_count": rows, "byte_count": byte_count, "sha256": sha256}
    connection.execute(update(archives).where(mine).values(**written))
    is_same = update(archives).where(mine, archives.c.state == WRITING).values(state=DONE)
    return connection.execute(is_same).rowcount == 1


def outdate_since(connection: Connection, first: date) -> None:
    """Labels changed from this UTC day on: the files of its days, few if any, are to be written again."""
    of_days = (archives.c.kind == DAYS, archives.c.first_day >= first, archives.c.state != STALE)
    connection.execute(update(archives).where(*of_days).values(state=STALE))


def outdate(connection: Connection, days: Collection[date]) -> None:
    """Charges of these UTC days came, went or changed hands: their files are to be written again."""
    for some in chunks([name_of(day) for day in days]):
        current = (archives.c.file.in_(some), archives.c.state != STALE)
        connection.execute(update(archives).where(*current).values(state=STALE))
