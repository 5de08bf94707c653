"""Tables of daily spend, by labels' values too, of running totals and of prices."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Date, ForeignKey, Index, String, Text, UniqueConstraint

from costguard.db.tables.base import Id, amount_columns, key_columns, table
from costguard.db.types import Timestamp

# Charges rolled up, so that a year answers like a day. Rows of a day are always replaced together.
daily_spend = table(
    "daily_spend",
    Column("day", Date, primary_key=True),
    *key_columns("project", "preset", "owner", "job", "provisioning_model"),
    *amount_columns(),
)

# The same without owners and jobs: a year by day and preset is read from hundreds of rows, not from hundreds of
# thousands. Rebuilt with daily_spend, day by day.
daily_totals = table(
    "daily_totals",
    Column("day", Date, primary_key=True),
    *key_columns("project", "preset", "provisioning_model"),
    *amount_columns(),
)

# The same without projects, too: of 500 projects a year by day and preset is thousands of rows, not a million.
daily_presets = table(
    "daily_presets",
    Column("day", Date, primary_key=True),
    *key_columns("preset", "provisioning_model"),
    *amount_columns(),
)

# A year by day and owner: the same without presets and provisioning models.
daily_owners = table(
    "daily_owners",
    Column("day", Date, primary_key=True),
    *key_columns("project", "owner"),
    *amount_columns(),
)
Index("ix_daily_owners_owner", daily_owners.c.owner, daily_owners.c.day)

# The charges at Spot prices alone, by price: what Spot saved is what the same use would have cost on demand.
daily_spot = table(
    "daily_spot",
    Column("day", Date, primary_key=True),
    *key_columns("project", "preset", "owner"),
    Column("price_id", Id, primary_key=True, autoincrement=False),
    Column("used_millis", BigInteger, nullable=False),  # thousandths of units, times seconds
    Column("amount_nanos", BigInteger, nullable=False),
)
Index("ix_daily_spot_owner", daily_spot.c.owner, daily_spot.c.day)

# The same without owners: a sixtieth of the rows where there are sixty.
daily_spot_totals = table(
    "daily_spot_totals",
    Column("day", Date, primary_key=True),
    *key_columns("project", "preset"),
    Column("price_id", Id, primary_key=True, autoincrement=False),
    Column("used_millis", BigInteger, nullable=False),
    Column("amount_nanos", BigInteger, nullable=False),
)

# What open lifetimes and storage accrue after their stored charges, by whose money it is, by the kind ("": not read
# yet) and product ("": none) of their VMs' keeper, and by the day from which it accrues. Moved in the transaction that
# changes a span; good while the basis in `burn_rates` holds.
running_totals = table(
    "running_totals",
    *key_columns("project", "preset", "owner", "job", "provisioning_model", "keeper_kind", "keeper_product"),
    Column("day", Date, primary_key=True),
    Column("machine_rate", BigInteger, nullable=False),  # nano-dollars an hour, without GPUs
    Column("gpu_rate", BigInteger, nullable=False),
    Column("storage_rate", BigInteger, nullable=False),
    Column("running", BigInteger, nullable=False),  # lifetimes
    Column("machine_nanos", BigInteger, nullable=False),  # accrued by the end of the day, if all go on until then
    Column("gpu_nanos", BigInteger, nullable=False),
    Column("storage_nanos", BigInteger, nullable=False),
    Column("seconds", BigInteger, nullable=False),
)

# How often each table that pages read was changed. Triggers count: of every row in SQLite, of every transaction in
# PostgreSQL. What was read is good while the number stays.
changes = table(
    "changes",
    Column("table_name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

prices = table(
    "prices",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("resource", String, nullable=False),
    Column("region", String, nullable=False),
    Column("provisioning_model", String, nullable=False),
    Column("unit", String, nullable=False),
    Column("rate_nanos", BigInteger, nullable=False),
    Column("in_force_from", Timestamp, nullable=False),
    Column("source", String, nullable=False),
    Column("sku_id", String, nullable=False, server_default=""),
    Column("recorded_at", Timestamp, nullable=False),
    UniqueConstraint("resource", "region", "provisioning_model", "in_force_from"),
)

price_refusals = table(
    "price_refusals",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("resource", String, nullable=False),
    Column("region", String, nullable=False),
    Column("provisioning_model", String, nullable=False),
    Column("unit", String, nullable=False),
    Column("rate_nanos", BigInteger, nullable=False),
    Column("in_force_from", Timestamp, nullable=False),
    Column("source", String, nullable=False),
    Column("sku_id", String, nullable=False, server_default=""),
    Column("reason", Text, nullable=False),
    Column("refused_at", Timestamp, nullable=False),
    UniqueConstraint("resource", "region", "provisioning_model", "rate_nanos"),
)

# What a label was until a moment; what it is now stands with the VM. A VM whose labels never change has no row.
label_changes = table(
    "label_changes",
    Column("instance_id", Id, ForeignKey("instances.id"), primary_key=True, autoincrement=False),
    Column("label", String, primary_key=True),
    Column("changed_at", Timestamp, primary_key=True),
    Column("old_value", String),  # NULL: the VM had no such label
)
Index("ix_label_changes_label", label_changes.c.label, label_changes.c.changed_at)

# Daily spend by the value of a label that the settings name. `value` is "" where the VM had no such label, which
# `is_labelled` tells from an empty one. Only days in `label_days` count; the others are read from charges.
daily_labels = table(
    "daily_labels",
    Column("label", String, primary_key=True),
    Column("is_labelled", Boolean, primary_key=True),
    Column("value", String, primary_key=True),
    Column("day", Date, primary_key=True),
    *key_columns("project", "preset", "owner", "job", "provisioning_model"),
    *amount_columns(),
    sqlite_with_rowid=False,  # read in the order of the key
)

# The same by project alone: a year by value is read from thousands of rows, not from hundreds of thousands.
daily_label_values = table(
    "daily_label_values",
    Column("label", String, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("is_labelled", Boolean, primary_key=True),
    Column("value", String, primary_key=True),
    *key_columns("project"),
    *amount_columns(),
    sqlite_with_rowid=False,
)

# Days whose sums by this label are what their charges come to. Whatever changes those removes the row first.
label_days = table(
    "label_days",
    Column("day", Date, primary_key=True),
    Column("label", String, primary_key=True),
    sqlite_with_rowid=False,
)
