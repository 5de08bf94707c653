"""What a VM's metadata says of who keeps it: its managed instance group, and the cluster of an old GKE node."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.add_column("instances", sa.Column("origin", json, nullable=False, server_default=sa.text("'{}'")))


def downgrade() -> None:
    op.drop_column("instances", "origin")
