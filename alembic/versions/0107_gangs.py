"""Gangs, the jobs of several VMs: the place of each attempt among them, and the rounds in which they run together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from costguard.db.change_triggers import count_changes

revision = "0107"
down_revision = "0106"
branch_labels = None
depends_on = None

# What every report of an agent changes is no change of its attempt that pages are made again for.
_REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)
_ZERO = sa.text("0")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("gang_round", sa.Integer(), server_default=_ZERO, nullable=False))
    for name in ("node", "formation", "round", "ready_round"):
        op.add_column("attempts", sa.Column(name, sa.Integer(), server_default=_ZERO, nullable=False))
    op.add_column("attempts", sa.Column("internal_address", sa.String(), server_default="", nullable=False))
    op.add_column(
        "attempts",
        sa.Column("ended_round", sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")),
    )
    count_changes(op.get_bind(), "attempts", without=_REPORTED)
