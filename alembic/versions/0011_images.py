"""Which image an attempt was given, and what that image was when it was pulled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("image", "image_digest"):
        op.add_column("attempts", sa.Column(name, sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    for name in ("image_digest", "image"):
        op.drop_column("attempts", name)
