"""What commitments cost and cover by the hour; export days that were read before have no hours."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0105"
down_revision = "0104"
branch_labels = None
depends_on = None

_KEYS = ("kind", "family", "region", "sku_id", "name", "currency", "rate")
_AMOUNTS = ("use_nanos", "covered_nanos", "saved_nanos", "fee_nanos", "offset_nanos")


def upgrade() -> None:
    op.add_column("bill_partitions", sa.Column("has_hours", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table(
        "bill_commitment_hours",
        sa.Column("partition_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in _KEYS),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _AMOUNTS),
        sa.ForeignKeyConstraint(
            ["partition_id"],
            ["bill_partitions.id"],
            name=op.f("fk_bill_commitment_hours_partition_id_bill_partitions"),
        ),
        sa.PrimaryKeyConstraint("partition_id", "hour", *_KEYS, name=op.f("pk_bill_commitment_hours")),
    )
    op.create_index("ix_bill_commitment_hours_hour", "bill_commitment_hours", ["hour"])
