"""Why an attempt did not resume from the newest complete checkpoint."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("resume_why", sa.Text(), server_default="", nullable=False))


def downgrade() -> None:
    op.drop_column("attempts", "resume_why")
