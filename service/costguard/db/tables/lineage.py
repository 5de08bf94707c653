"""The tables of how jobs hang together: where they store, from what they start, and the labels they were given."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, String, Text

from costguard.db.tables.base import table

# Where a job stores: its checkpoints, and its outputs. The key is a digest of the location.
job_places = table(
    "job_places",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("place_key", String, primary_key=True),
)
Index("ix_job_places_key", job_places.c.place_key)

# An address from which a job starts, and the job that stored what lies there.
job_origins = table(
    "job_origins",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("address_key", String, primary_key=True),
    Column("address", Text, nullable=False),
    Column("uses", String, nullable=False),  # "checkpoint", "input" or "command"
    Column("parent_id", String, ForeignKey("jobs.id")),  # NULL: not known
)
Index("ix_job_origins_parent", job_origins.c.parent_id)

# The labels that jobs asked for on their VMs, by which executions of workflows are added up.
job_labels = table(
    "job_labels",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("label", String, primary_key=True),
    Column("value", String, nullable=False),
)
Index("ix_job_labels_value", job_labels.c.label, job_labels.c.value)
