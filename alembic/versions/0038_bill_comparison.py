"""The ledger compared with Google's bill."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "bill_days",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("standing", sa.String(), nullable=False),
        sa.Column("ledger_nanos", sa.BigInteger(), nullable=False),
        sa.Column("list_nanos", sa.BigInteger(), nullable=False),
        sa.Column("effective_nanos", sa.BigInteger(), nullable=False),
        sa.Column("sustained_nanos", sa.BigInteger(), nullable=False),
        sa.Column("committed_nanos", sa.BigInteger(), nullable=False),
        sa.Column("contract_nanos", sa.BigInteger(), nullable=False),
        sa.Column("other_savings_nanos", sa.BigInteger(), nullable=False),
        sa.Column("explained_nanos", sa.BigInteger(), nullable=False),
        sa.Column("unexplained_nanos", sa.BigInteger(), nullable=False),
        sa.Column("absolute_nanos", sa.BigInteger(), nullable=False),
        sa.Column("outside_nanos", sa.BigInteger(), nullable=False),
        sa.Column("reservation_nanos", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.Integer(), nullable=False),
        sa.Column("differing", sa.Integer(), nullable=False),
        sa.Column("compared_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "project", name=op.f("pk_bill_days")),
    )
    op.create_table(
        "bill_costs",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("gce_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("provisioning_model", sa.String(), nullable=False),
        sa.Column("machine_nanos", sa.BigInteger(), nullable=False),
        sa.Column("gpu_nanos", sa.BigInteger(), nullable=False),
        sa.Column("storage_nanos", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.BigInteger(), nullable=False),
        sa.Column("ledger_nanos", sa.BigInteger(), nullable=False),
        sa.Column("list_nanos", sa.BigInteger(), nullable=False),
        sa.Column("sustained_nanos", sa.BigInteger(), nullable=False),
        sa.Column("committed_nanos", sa.BigInteger(), nullable=False),
        sa.Column("contract_nanos", sa.BigInteger(), nullable=False),
        sa.Column("other_savings_nanos", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "day",
            "project",
            "gce_id",
            "name",
            "preset",
            "owner",
            "job",
            "provisioning_model",
            name=op.f("pk_bill_costs"),
        ),
    )
    op.create_table(
        "bill_differences",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("thing_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("gce_id", sa.String(), nullable=False),
        sa.Column("vm_name", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("bill_project", sa.String(), nullable=False),
        sa.Column("billed_model", sa.String(), nullable=False),
        sa.Column("ledger_used", sa.String(), nullable=False),
        sa.Column("billed_used", sa.String(), nullable=False),
        sa.Column("sku_ids", _JSON, nullable=False),
        sa.Column("seconds", sa.BigInteger(), nullable=False),
        sa.Column("ledger_nanos", sa.BigInteger(), nullable=True),
        sa.Column("list_nanos", sa.BigInteger(), nullable=True),
        sa.Column("effective_nanos", sa.BigInteger(), nullable=True),
        sa.Column("expected_nanos", sa.BigInteger(), nullable=True),
        sa.Column("difference_nanos", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "rank", name=op.f("pk_bill_differences")),
    )
    op.create_table(
        "bill_others",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("sku_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("nanos", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "project", "kind", "sku_id", "name", name=op.f("pk_bill_others")),
    )


def downgrade() -> None:
    for name in ("bill_others", "bill_differences", "bill_costs", "bill_days"):
        op.drop_table(name)
