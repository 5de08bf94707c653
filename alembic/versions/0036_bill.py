"""Google's bill, as its export says it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "bill_partitions",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("batches", _JSON, nullable=False),
        sa.Column("read_at", sa.BigInteger(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bill_partitions")),
        sa.UniqueConstraint("source", "day", name=op.f("uq_bill_partitions_source_day")),
    )
    resource = ("project_number", "kind", "resource_id", "resource_name", "project_id", "zone")
    op.create_table(
        "bill_resources",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in resource),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bill_resources")),
        sa.UniqueConstraint(*resource, name=op.f(f"uq_bill_resources_{'_'.join(resource)}")),
    )
    op.create_index(op.f("ix_bill_resources_resource_id"), "bill_resources", ["resource_id"])
    op.create_table(
        "bill_terms",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("service_id", sa.String(), nullable=False),
        sa.Column("sku_id", sa.String(), nullable=False),
        sa.Column("sku_text", sa.Text(), nullable=False),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in (
                *("unit", "currency", "rate", "cost_type", "invoice_month"),
                *("consumption_model", "reservation_name"),
            )
        ),
        sa.Column("is_unused_reservation", sa.Boolean(), nullable=False),
        sa.Column("product", sa.String(), nullable=False),
        sa.Column("adjustment", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bill_terms")),
        sa.UniqueConstraint("digest", name=op.f("uq_bill_terms_digest")),
    )
    _make_usage()


def _make_usage() -> None:
    op.create_table(
        "bill_usage",
        sa.Column("partition_id", _ID, autoincrement=False, nullable=False),
        sa.Column("pacific_day", sa.Date(), nullable=False),
        sa.Column("utc_day", sa.Date(), nullable=False),
        sa.Column("resource", _ID, autoincrement=False, nullable=False),
        sa.Column("terms", _ID, autoincrement=False, nullable=False),
        sa.Column("usage_start", sa.BigInteger(), nullable=False),
        sa.Column("usage_end", sa.BigInteger(), nullable=False),
        sa.Column("export_time", sa.BigInteger(), nullable=True),
        sa.Column("amount", sa.String(), nullable=False),
        sa.Column("list_nanos", sa.BigInteger(), nullable=True),
        sa.Column("cost_nanos", sa.BigInteger(), nullable=False),
        sa.Column("credits", _JSON, nullable=True),
        sa.Column("row_count", sa.Integer(), nullable=False),
        sa.Column("repeated_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["partition_id"], ["bill_partitions.id"], name=op.f("fk_bill_usage_partition_id")),
        sa.ForeignKeyConstraint(["resource"], ["bill_resources.id"], name=op.f("fk_bill_usage_resource")),
        sa.ForeignKeyConstraint(["terms"], ["bill_terms.id"], name=op.f("fk_bill_usage_terms")),
        sa.PrimaryKeyConstraint(
            "partition_id", "pacific_day", "utc_day", "resource", "terms", name=op.f("pk_bill_usage")
        ),
    )
    op.create_index(op.f("ix_bill_usage_pacific_day"), "bill_usage", ["pacific_day"])


def downgrade() -> None:
    for name in ("bill_usage", "bill_terms", "bill_resources", "bill_partitions"):
        op.drop_table(name)
