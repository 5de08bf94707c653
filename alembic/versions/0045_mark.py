"""A mark that the guard counts on, and which transaction wrote it, so that an older database is noticed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("installation", sa.Column("mark", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("installation", sa.Column("written_by", sa.BigInteger()))
    op.add_column("installation", sa.Column("timeline", sa.BigInteger()))


def downgrade() -> None:
    for name in ("timeline", "written_by", "mark"):
        op.drop_column("installation", name)
