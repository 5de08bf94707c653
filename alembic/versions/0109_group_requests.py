"""Gangs on flex-start: the managed group and the resize request of an attempt's VM, and the agent that spoke for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from costguard.db.change_triggers import count_changes

revision = "0109"
down_revision = "0108"
branch_labels = None
depends_on = None

# What every report of an agent changes is no change of its attempt that pages are made again for.
_REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)


def upgrade() -> None:
    for name in ("vm_group", "resize_request", "claimed_by"):
        op.add_column("attempts", sa.Column(name, sa.String(), server_default="", nullable=False))
    count_changes(op.get_bind(), "attempts", without=_REPORTED)
