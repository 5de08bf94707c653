"""Which replica watches each project, and the replicas that share them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0108"
down_revision = "0107"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "project_leases",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_project_leases")),
    )
    op.create_table(
        "replicas",
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("holder", name=op.f("pk_replicas")),
    )
