"""A disk is known by Google's id, as the bill names it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("storage_spans", sa.Column("disk_id", sa.String()))


def downgrade() -> None:
    op.drop_column("storage_spans", "disk_id")
