"""People in Slack: the workspace that each is of; all are looked up again, since guests were among them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("people", sa.Column("team_id", sa.String(), nullable=False, server_default=""))
    op.execute("UPDATE people SET looked_up_at = 0")


def downgrade() -> None:
    op.drop_column("people", "team_id")
