"""The fleet's GPU use by project and day, and up to when each VM's samples are counted in it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0103"
down_revision = "0102"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gpu_use",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("known_us", sa.BigInteger(), nullable=False),
        sa.Column("used_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "day", name=op.f("pk_gpu_use")),
    )
    op.add_column("utilisation", sa.Column("counted_to", sa.BigInteger()))
