"""Disks that are kept while they hold the only copy, and when each interrupted run had begun."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("look_files", sa.BigInteger()))
    op.add_column("jobs", sa.Column("disk_given_up_at", sa.BigInteger()))
    op.add_column("jobs", sa.Column("disk_given_up_by", sa.String(), nullable=False, server_default=""))
    op.add_column("attempts", sa.Column("rested_at", sa.BigInteger()))
    op.add_column("interruptions", sa.Column("started_at", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("interruptions", "started_at")
    op.drop_column("attempts", "rested_at")
    op.drop_column("jobs", "disk_given_up_by")
    op.drop_column("jobs", "disk_given_up_at")
    op.drop_column("jobs", "look_files")
