"""Tables about the database itself, and about VMs with our labels that it does not know."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, String, Text

from costguard.db.tables.base import only_where, table
from costguard.db.types import Timestamp

# At most one row; none means the first generation. On PostgreSQL the transaction that wrote the row last is in it, so a
# migration that makes PostgreSQL write the table again has to set `written_by` to NULL.
installation = table(
    "installation",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("generation", Integer, nullable=False),
    Column("began_at", Timestamp),
    Column("cause", String, nullable=False, server_default=""),
    Column("backup_at", Timestamp),
    Column("home", String, nullable=False, server_default=""),  # where the database was last opened to act
    Column("mark", BigInteger, nullable=False, server_default="0"),  # how often the guard that acts has counted on
    Column("written_by", BigInteger),  # the id of the transaction that wrote this row; None on SQLite
    Column("timeline", BigInteger),  # of the PostgreSQL server; None where it is not known
)

# VMs with our labels of which the ledger holds no intent. They are reported, and never deleted by a rule.
UNKNOWN_THERE = "cleared_at IS NULL"
unknown_vms = table(
    "unknown_vms",
    Column("project", String, primary_key=True),
    Column("gce_id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("job", String, nullable=False),  # as its label says; it may be unknown too
    Column("generation", Integer, nullable=False),
    Column("request_uuid", String, nullable=False),
    Column("status", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("found_at", Timestamp, nullable=False),
    Column("cleared_at", Timestamp),  # it is gone, or was adopted
    Column("verdict", String, nullable=False, server_default=""),  # an admin's: "adopt" or "delete"
    Column("verdict_by", String, nullable=False, server_default=""),
    Column("verdict_at", Timestamp),
)
Index(
    "ix_unknown_vms_there",
    unknown_vms.c.job,
    **only_where(UNKNOWN_THERE),
)
