"""When a look last found the newest complete checkpoint: a look that fails later knows nothing newer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("look_seen_at", sa.BigInteger()))
    seen_at = "CASE WHEN look_error = '' THEN looked_at ELSE advanced_at END"
    op.execute(f"UPDATE jobs SET look_seen_at = {seen_at} WHERE look_resume_from <> ''")  # noqa: S608 no input is in it


def downgrade() -> None:
    op.drop_column("jobs", "look_seen_at")
