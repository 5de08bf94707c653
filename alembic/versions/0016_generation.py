"""Which generation of the database intended an attempt, and VMs that the ledger does not know."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("generation", sa.Integer(), server_default=sa.text("1"), nullable=False))
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("began_at", sa.BigInteger()),
        sa.Column("cause", sa.String(), server_default="", nullable=False),
        sa.Column("backup_at", sa.BigInteger()),
        sa.Column("home", sa.String(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
    op.create_table(
        "unknown_vms",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("gce_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("request_uuid", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("found_at", sa.BigInteger(), nullable=False),
        sa.Column("cleared_at", sa.BigInteger()),
        sa.Column("verdict", sa.String(), server_default="", nullable=False),
        sa.Column("verdict_by", sa.String(), server_default="", nullable=False),
        sa.Column("verdict_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("project", "gce_id", name=op.f("pk_unknown_vms")),
    )
    there = sa.text("cleared_at IS NULL")
    op.create_index("ix_unknown_vms_there", "unknown_vms", ["job"], sqlite_where=there, postgresql_where=there)


def downgrade() -> None:
    op.drop_table("unknown_vms")
    op.drop_table("installation")
    op.drop_column("attempts", "generation")
