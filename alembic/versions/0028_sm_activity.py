"""The evidence of idleness holds the activity of the GPUs' multiprocessors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_COLUMNS = ("sm_mean_bp", "sm_max_bp")


def upgrade() -> None:
    for name in _COLUMNS:
        op.add_column("utilisation", sa.Column(name, sa.Integer(), nullable=True))


def downgrade() -> None:
    for name in reversed(_COLUMNS):
        op.drop_column("utilisation", name)
