"""The state of the events' subscription, counts of the guard's own requests by the hour, and looks that are wanted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0110"
down_revision = "0108"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("projects", sa.Column("wanted_at", sa.BigInteger(), nullable=True))
    op.create_table(
        "feed_wire",
        sa.Column("subscription", sa.String(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("heard_at", sa.BigInteger(), nullable=True),
        sa.Column("pulled_at", sa.BigInteger(), nullable=True),
        sa.Column("message_at", sa.BigInteger(), nullable=True),
        sa.Column("can_publish", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("unread", sa.BigInteger(), nullable=True),
        sa.Column("oldest_unread_at", sa.BigInteger(), nullable=True),
        sa.Column("measured_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("subscription", name=op.f("pk_feed_wire")),
    )
    op.create_table(
        "hourly_counts",
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "what", name=op.f("pk_hourly_counts")),
    )
