"""A hint about a job may be silenced."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("never_mind_at", sa.BigInteger()))
    op.add_column("jobs", sa.Column("never_mind_by", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("jobs", "never_mind_by")
    op.drop_column("jobs", "never_mind_at")
