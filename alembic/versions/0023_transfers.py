"""Attempts have what their agents do for the command, and how far transfers have come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("phase", sa.String(), nullable=False, server_default=""))
    json = sa.JSON().with_variant(JSONB, "postgresql")
    op.add_column("attempts", sa.Column("transfers", json, nullable=False, server_default=sa.text("'[]'")))


def downgrade() -> None:
    op.drop_column("attempts", "transfers")
    op.drop_column("attempts", "phase")
