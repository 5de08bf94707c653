"""What the audit log's feed says: VMs that no list has shown, and how well each project is heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0106"
down_revision = "0105"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("operations", sa.Column("name", sa.String(), server_default="", nullable=False))
    op.add_column("operations", sa.Column("end_from_entry", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table(
        "feed_requests",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("gce_id", sa.String(), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("request", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("project", "gce_id", name=op.f("pk_feed_requests")),
    )
    op.create_index(op.f("ix_feed_requests_heard_at"), "feed_requests", ["heard_at"])
    op.create_table(
        "feed_projects",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("first_heard_at", sa.BigInteger(), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("doubled", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.Column("missed_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_feed_projects")),
    )
