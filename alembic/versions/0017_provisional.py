"""Sessions are kept as digests, so those from before are over; tokens of link sessions are provisional."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Their ids stood in cookies, signed by a key in this very database: whoever read it could have made one.
    op.drop_table("sessions")
    _make_sessions(
        sa.Column("digest", sa.String(), nullable=False),
        sa.UniqueConstraint("digest", name=op.f("uq_sessions_digest")),
    )
    op.add_column("api_tokens", sa.Column("provisional_until", sa.BigInteger(), nullable=True))
    op.add_column("api_tokens", sa.Column("session_id", sa.String(), server_default="", nullable=False))
    op.add_column("api_tokens", sa.Column("confirmed_at", sa.BigInteger(), nullable=True))
    op.add_column("api_tokens", sa.Column("confirmed_by", sa.String(), server_default="", nullable=False))
    op.create_index("ix_api_tokens_session_id", "api_tokens", ["session_id"])


def downgrade() -> None:
    op.drop_index("ix_api_tokens_session_id", "api_tokens")
    # Without the columns those that nobody confirmed would outlive their sessions.
    op.execute("DELETE FROM api_tokens WHERE provisional_until IS NOT NULL")
    for name in ("confirmed_by", "confirmed_at", "session_id", "provisional_until"):
        op.drop_column("api_tokens", name)
    op.drop_table("sessions")
    _make_sessions()


def _make_sessions(*more: sa.SchemaItem) -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), nullable=False),
        *more,
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
