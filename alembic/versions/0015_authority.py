"""Requests keep what they were asked with: it is the most that they count for when they are carried out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_TEXTS = ("known_by", "asked_by", "token_id")


def upgrade() -> None:
    for name in _TEXTS:
        op.add_column("requests", sa.Column(name, sa.String(), server_default="", nullable=False))
    op.add_column("requests", sa.Column("is_granted", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    json = sa.JSON().with_variant(JSONB, "postgresql")
    op.add_column("requests", sa.Column("permissions", json, nullable=True))
    # A role stood there only where it had been granted on the server.
    op.execute("UPDATE requests SET known_by = 'link', asked_by = \"by\", is_granted = true WHERE role <> ''")


def downgrade() -> None:
    op.execute("UPDATE requests SET role = '' WHERE NOT is_granted")
    op.drop_column("requests", "permissions")
    op.drop_column("requests", "is_granted")
    for name in reversed(_TEXTS):
        op.drop_column("requests", name)
