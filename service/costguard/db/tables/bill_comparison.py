"""Tables of the comparison of the ledger with Google's bill. All is worked out again from both; nothing else reads it.

Amounts are nano-dollars. Days are UTC. A day's rows are always replaced together.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Date, Integer, String, Table

from costguard.db.tables.base import Json, amount_columns, key_columns, metadata
from costguard.db.types import Timestamp

# One row for each day and project that either side knows.
bill_days = Table(
    "bill_days",
    metadata,
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
bill_costs = Table(
    "bill_costs",
    metadata,
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
bill_differences = Table(
    "bill_differences",
    metadata,
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
bill_others = Table(
    "bill_others",
    metadata,
    Column("day", Date, primary_key=True),
    *key_columns("project", "kind", "sku_id", "name"),
    Column("nanos", BigInteger, nullable=False),
)
