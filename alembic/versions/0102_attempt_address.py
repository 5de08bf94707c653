"""Whether an attempt's VM gets an external address, and why: NULL of attempts from before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from costguard.db.change_triggers import count_changes

revision = "0102"
down_revision = "0101"
branch_labels = None
depends_on = None

# What every report of an agent changes is no change of its attempt that pages are made again for.
_REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)


def upgrade() -> None:
    json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.add_column("attempts", sa.Column("address", json))
    count_changes(op.get_bind(), "attempts", without=_REPORTED)
