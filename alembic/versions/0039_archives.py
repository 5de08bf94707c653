"""Archives, and the charges of archived spans by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "archives",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("kind", "file", "state")),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("last_day", sa.Date(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("through_at", "row_count", "byte_count")),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_archives")),
        sa.UniqueConstraint("file", name=op.f("uq_archives_file")),
    )
    op.create_table(
        "charge_days",
        sa.Column("is_storage", sa.Boolean(), nullable=False),
        sa.Column("span_id", _ID, autoincrement=False, nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("price_id", _ID, autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("quantity_millis", "seconds", "amount_nanos")),
        sa.ForeignKeyConstraint(["price_id"], ["prices.id"], name=op.f("fk_charge_days_price_id")),
        sa.PrimaryKeyConstraint(
            "is_storage", "span_id", "day", "price_id", "quantity_millis", name=op.f("pk_charge_days")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_charge_days_day", "charge_days", ["day"])
    for table in ("lifetimes", "storage_spans"):
        op.add_column(table, sa.Column("archive_id", sa.Integer()))


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM charge_days")):
        raise RuntimeError("Charges were archived, and the version before this one cannot read them.")
    for table in ("lifetimes", "storage_spans"):
        op.drop_column(table, "archive_id")
    op.drop_table("charge_days")
    op.drop_table("archives")
