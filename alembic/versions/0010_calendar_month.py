"""Storage and local SSD are billed by the calendar month: what was charged by 730 hours is charged once more."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Marks the spans; the next pass replaces their charges, and the sums of their days, by its own rules."""
    op.execute("UPDATE storage_spans SET charged_to = NULL WHERE charged_to IS NOT NULL")
    op.execute("UPDATE lifetimes SET charged_to = NULL WHERE charged_to IS NOT NULL AND local_ssd_gib > 0")


def downgrade() -> None:
    """The same: an older version charges what is marked by its own rules."""
    upgrade()
