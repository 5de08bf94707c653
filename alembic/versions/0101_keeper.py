"""Who keeps each VM, with its evidence: {} until the next look reads it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0101"
down_revision = "0100"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.add_column("instances", sa.Column("keeper", json, nullable=False, server_default=sa.text("'{}'")))
