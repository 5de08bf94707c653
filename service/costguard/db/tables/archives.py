"""Tables of what was archived: the files, and the charges that are kept rolled up by day."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Date, ForeignKey, Index, String

from costguard.db.tables.base import Id, table
from costguard.db.types import DayNumber, Timestamp

# One row a file, written before anything that is in it goes. `state` is "open" until all of it is gone. Of the kind
# "days" it is a day of the history: "done" while its file is as the ledger is, "stale" or "writing" otherwise.
archives = table(
    "archives",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("kind", String, nullable=False),  # "charges", "events", "operations", "messages", "outputs" or "days"
    Column("file", String, nullable=False, unique=True),  # its name in the folder of archives
    Column("state", String, nullable=False),  # "open", "done", "stale" or "writing"
    Column("made_at", Timestamp, nullable=False),
    Column("first_day", Date, nullable=False),  # UTC, of what is in it
    Column("last_day", Date, nullable=False),
    Column("through_at", Timestamp, nullable=False),  # the latest moment by which its rows were chosen
    Column("row_count", BigInteger, nullable=False),
    Column("byte_count", BigInteger, nullable=False),
    Column("sha256", String, nullable=False),  # of the file
)

# The archived charges of a span by day and price. The price names the resource; `seconds * quantity_millis` is the use.
charge_days = table(
    "charge_days",
    Column("is_storage", Boolean, primary_key=True),
    Column("span_id", Id, primary_key=True, autoincrement=False),
    Column("day", DayNumber, primary_key=True),
    Column("price_id", Id, ForeignKey("prices.id"), primary_key=True, autoincrement=False),
    Column("quantity_millis", BigInteger, primary_key=True, autoincrement=False),
    Column("seconds", BigInteger, nullable=False),
    Column("amount_nanos", BigInteger, nullable=False),
    sqlite_with_rowid=False,  # half the size
)
Index("ix_charge_days_day", charge_days.c.day)
