"""The tables of data stages: what is kept of a source near the VMs, and what each VM fetched from that source."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, String, Text, text

from costguard.db.tables.base import only_where, table
from costguard.db.types import Timestamp

# Queries say this in the very same words, so that both databases use the small index.
STORED_STAGE = "state <> 'deleted'"

data_stages = table(
    "data_stages",
    Column("digest", String, primary_key=True),
    Column("address", String, nullable=False),
    Column("source", String, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("files", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("staged", BigInteger, nullable=False, server_default=text("0")),
    Column("note", String, nullable=False, server_default=""),
    Column("holder", String, nullable=False, server_default=""),  # the name of an attempt; "" none
    Column("renewed_at", Timestamp),
    Column("made_at", Timestamp, nullable=False),
    Column("used_at", Timestamp, nullable=False),
    Column("whole_at", Timestamp),
    Column("deleted_at", Timestamp),
    Column("delete_asked_by", String, nullable=False, server_default=""),
    Column("error", Text, nullable=False, server_default=""),
)
Index("ix_data_stages_source", data_stages.c.source)
Index("ix_data_stages_stored", data_stages.c.digest, **only_where(STORED_STAGE))

stage_uses = table(
    "stage_uses",
    Column("attempt", String, primary_key=True),  # its name
    Column("digest", String, primary_key=True),
    Column("job_id", String, nullable=False),
    Column("source", String, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("from_source", BigInteger, nullable=False),  # bytes that its VM fetched, or was about to
    Column("used_at", Timestamp, nullable=False),
)
Index("ix_stage_uses_job_id", stage_uses.c.job_id)
Index("ix_stage_uses_digest", stage_uses.c.digest)
