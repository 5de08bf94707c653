"""The notice of a preemption that an attempt's VM was asked for: 0 of attempts from before, which asked for none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from costguard.db.change_triggers import count_changes

revision = "0104"
down_revision = "0103"
branch_labels = None
depends_on = None

# What every report of an agent changes is no change of its attempt that pages are made again for.
_REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)


def upgrade() -> None:
    op.add_column("attempts", sa.Column("notice_s", sa.Integer(), server_default=sa.text("0")))
    count_changes(op.get_bind(), "attempts", without=_REPORTED)
