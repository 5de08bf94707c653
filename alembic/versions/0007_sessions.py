"""Sessions are stored from their beginning, so that they can be shown and ended; those from before are over."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("via", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("client", sa.String(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_address", "sessions", ["address"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.drop_table("ended_sessions")


def downgrade() -> None:
    # Which sessions were ended is not known any more; with a new key none of their cookies holds.
    op.execute("DELETE FROM signing_keys WHERE name = 'sessions'")
    op.create_table(
        "ended_sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ended_sessions")),
    )
    op.drop_index("ix_sessions_expires_at", "sessions")
    op.drop_index("ix_sessions_address", "sessions")
    op.drop_table("sessions")
