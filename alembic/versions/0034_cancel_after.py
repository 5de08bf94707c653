"""A job may be cancelled after its next checkpoint."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("cancel_after_at", sa.BigInteger()))
    op.add_column("jobs", sa.Column("cancel_after_by", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("jobs", "cancel_after_by")
    op.drop_column("jobs", "cancel_after_at")
