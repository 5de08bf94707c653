"""Tables of what VMs' labels were before they changed, and of daily sums by their values."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Date, ForeignKey, Index, String, Table

from costguard.db.tables.base import Id, amount_columns, key_columns, metadata
from costguard.db.types import Timestamp

# What a label was until a moment; what it is now stands with the VM. A VM whose labels never change has no row.
label_changes = Table(
    "label_changes",
    metadata,
    Column("instance_id", Id, ForeignKey("instances.id"), primary_key=True, autoincrement=False),
    Column("label", String, primary_key=True),
    Column("changed_at", Timestamp, primary_key=True),
    Column("old_value", String),  # NULL: the VM had no such label
)
Index("ix_label_changes_label", label_changes.c.label, label_changes.c.changed_at)

# Daily spend by the value of a label that the settings name. `value` is "" where the VM had no such label, which
# `is_labelled` tells from an empty one. Only days in `label_days` count; the others are read from charges.
daily_labels = Table(
    "daily_labels",
    metadata,
    Column("label", String, primary_key=True),
    Column("is_labelled", Boolean, primary_key=True),
    Column("value", String, primary_key=True),
    Column("day", Date, primary_key=True),
    *key_columns("project", "preset", "owner", "job", "provisioning_model"),
    *amount_columns(),
    sqlite_with_rowid=False,  # read in the order of the key
)

# The same by project alone: a year by value is read from thousands of rows, not from hundreds of thousands.
daily_label_values = Table(
    "daily_label_values",
    metadata,
    Column("label", String, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("is_labelled", Boolean, primary_key=True),
    Column("value", String, primary_key=True),
    *key_columns("project"),
    *amount_columns(),
    sqlite_with_rowid=False,
)

# Days whose sums by this label are what their charges come to. Whatever changes those removes the row first.
label_days = Table(
    "label_days",
    metadata,
    Column("day", Date, primary_key=True),
    Column("label", String, primary_key=True),
    sqlite_with_rowid=False,
)
