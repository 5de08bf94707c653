"""Attempts have how long the setup before their command took."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("setup_s", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("attempts", "setup_s")
