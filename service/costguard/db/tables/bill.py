"""Tables of Google's bill, as its export says it: sums of rows, by the export day that brought them.

An export is appended only, and cut into partitions by the day of the append. So a partition is the unit that is read
again and replaced: rows that come late are in later partitions, and a repeated read changes nothing.

The comparison with the ledger is worked out again from both, and nothing else reads it: nano-dollars by UTC day. A
day's rows are always replaced together.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Date, ForeignKey, Index, Integer, String, Text, false, text
from sqlalchemy import UniqueConstraint as Unique

from costguard.db.tables.base import Id, Json, JsonOrNull, amount_columns, key_columns, table
from costguard.db.types import Timestamp

# One export day of one source. `batches` says what was appended when: {export time: [rows, digest]}.
bill_partitions = table(
    "bill_partitions",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("source", String, nullable=False),  # "detailed:<billing account>" or "focus:<billing account>"
    Column("day", Date, nullable=False),  # UTC, of the export time; of the usage where no row has one
    Column("row_count", BigInteger, nullable=False),
    Column("batches", Json, nullable=False),
    Column("read_at", Timestamp, nullable=False),
    Column("origin", Text, nullable=False),  # the file or the table that it was read from
    # Whether its sums by the hour are kept: not of days that versions before them read, until they are read again.
    Column("has_hours", Boolean, nullable=False, server_default=false()),
    Unique("source", "day"),
)

# What is billed: a VM, a disk, a reservation, or a project's rest (kind and id "").
bill_resources = table(
    "bill_resources",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("project_number", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("resource_id", String, nullable=False),
    Column("resource_name", String, nullable=False),
    Column("project_id", String, nullable=False),
    Column("zone", String, nullable=False),
    Unique("project_number", "kind", "resource_id", "resource_name", "project_id", "zone"),
)
Index("ix_bill_resources_resource_id", bill_resources.c.resource_id)

# What rows have in common but their resource and day: a few for each SKU.
bill_terms = table(
    "bill_terms",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("digest", String, nullable=False, unique=True),  # of all other columns
    Column("service_id", String, nullable=False),
    Column("sku_id", String, nullable=False),
    Column("sku_text", Text, nullable=False),
    Column("unit", String, nullable=False),
    Column("currency", String, nullable=False),
    Column("rate", String, nullable=False),  # exact, as a decimal
    Column("cost_type", String, nullable=False),
    Column("invoice_month", String, nullable=False),
    Column("consumption_model", String, nullable=False),
    Column("reservation_name", String, nullable=False),
    Column("is_unused_reservation", Boolean, nullable=False),
    Column("product", String, nullable=False),
    Column("adjustment", String, nullable=False),
)

# Nanos are of the terms' currency. A row is in one Pacific day and one UTC day, that of the start of its usage.
bill_usage = table(
    "bill_usage",
    Column("partition_id", Id, ForeignKey("bill_partitions.id"), primary_key=True, autoincrement=False),
    Column("pacific_day", Date, primary_key=True),
    Column("utc_day", Date, primary_key=True),
    Column("resource", Id, ForeignKey("bill_resources.id"), primary_key=True, autoincrement=False),
    Column("terms", Id, ForeignKey("bill_terms.id"), primary_key=True, autoincrement=False),
    Column("usage_start", Timestamp, nullable=False),
    Column("usage_end", Timestamp, nullable=False),
    Column("export_time", Timestamp),
    Column("amount", String, nullable=False),  # exact, as a decimal, in the terms' unit
    Column("list_nanos", BigInteger),
    Column("cost_nanos", BigInteger, nullable=False),
    Column("credits", JsonOrNull),  # [[type, name, id, nanos]]; NULL: none
    Column("row_count", Integer, nullable=False),
    Column("repeated_count", Integer, nullable=False, server_default=text("0")),
    Column("default_nanos", BigInteger),  # at the account's price without a commitment
)
Index("ix_bill_usage_pacific_day", bill_usage.c.pacific_day)

# What commitments cost and cover, by the hour in which usage begins. Nanos are of the row's currency.
bill_commitment_hours = table(
    "bill_commitment_hours",
    Column("partition_id", Id, ForeignKey("bill_partitions.id"), primary_key=True, autoincrement=False),
    Column("hour", Timestamp, primary_key=True, autoincrement=False),
    *key_columns("kind", "family", "region", "sku_id", "name", "currency", "rate"),
    *(
        Column(name, BigInteger, nullable=False)
        for name in ("use_nanos", "covered_nanos", "saved_nanos", "fee_nanos", "offset_nanos")
    ),
)
Index("ix_bill_commitment_hours_hour", bill_commitment_hours.c.hour)

# One row for each day and project that either side knows.
bill_days = table(
    "bill_days",
    Column("day", Date, primary_key=True),
    *key_columns("project"),
    Column("standing", String, nullable=False),  # "closed", "open", "before_export", "no_export", "before_watch"
    *(
        Column(name, BigInteger, nullable=False)
        for name in (
            *("ledger_nanos", "list_nanos", "effective_nanos"),
            *("sustained_nanos", "committed_nanos", "contract_nanos", "other_savings_nanos"),
            *("explained_nanos", "unexplained_nanos", "absolute_nanos", "outside_nanos", "reservation_nanos"),
        )
    ),
    Column("lines", Integer, nullable=False),
    Column("differing", Integer, nullable=False),  # not explained
    Column("compared_at", Timestamp, nullable=False),
)

# What each VM's day cost by the bill, with its disks, by whose money it is. Of closed days alone.
bill_costs = table(
    "bill_costs",
    Column("day", Date, primary_key=True),
    *key_columns("project", "gce_id", "name", "preset", "owner", "job", "provisioning_model"),
    *amount_columns(),  # effective: after discounts and credits
    *(
        Column(name, BigInteger, nullable=False)
        for name in (
            *("ledger_nanos", "list_nanos"),
            *("sustained_nanos", "committed_nanos", "contract_nanos", "other_savings_nanos"),
        )
    ),
)

# The largest differences of a day, explained ones too.
bill_differences = table(
    "bill_differences",
    Column("day", Date, primary_key=True),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    *(
        Column(name, String, nullable=False)
        for name in (
            *("project", "kind", "thing_id", "name", "gce_id", "vm_name", "zone", "resource", "reason"),
            *("bill_project", "billed_model"),
            *("ledger_used", "billed_used"),  # exact, in unit-seconds, as a fraction
        )
    ),
    Column("sku_ids", Json, nullable=False),
    Column("seconds", BigInteger, nullable=False),
    Column("ledger_nanos", BigInteger),
    Column("list_nanos", BigInteger),
    Column("effective_nanos", BigInteger),
    Column("expected_nanos", BigInteger),
    Column("difference_nanos", BigInteger, nullable=False),
)

# What was paid for what the ledger does not hold: `kind` is "outside" (a SKU), "commitment" (its fee) or
# "reservation" (its unused part).
bill_others = table(
    "bill_others",
    Column("day", Date, primary_key=True),
    *key_columns("project", "kind", "sku_id", "name"),
    Column("nanos", BigInteger, nullable=False),
)
