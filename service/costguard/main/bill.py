"""Reading Google's bill into the database, with or without a server."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from costguard.bigquery.client import ExportTable
from costguard.bill.export_file import rows_of_file
from costguard.bill.export_sums import ExportSums
from costguard.bill.reading import AHEAD, last_read_at, read_table
from costguard.bill.store import BillRead, store
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import Invalid
from costguard.model.ports import Clock
from costguard.settings.bill import BillSection


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
    """Reads the export's table when it is due: the daemon's task. A reading that failed is tried at the next turn."""

    settings: BillSection
    database: Database
    clock: Clock

    def run(self, lease: Lease | None, stop: threading.Event) -> BillRead | None:
        """Reads the bill; None where no table is set or none is due. Raises CloudError, Invalid and StoreError."""
        settings, now = self.settings, self.clock.now()
        with self.database.read() as connection:
            last = last_read_at(connection)
        if settings.table is None or (last is not None and now - last < settings.read_every):
            return None
        table = ExportTable(
            settings.table,
            billed_project=settings.billed_project or "",
            location=settings.location,
            most_bytes=settings.most_bytes,
            endpoint=settings.endpoint,
            wait=stop.wait,
            jitter=lambda: random.uniform(0.5, 1.0),
        )
        with closing(table):
            return read_table(self.database, table, settings.first_days, now, lease)
