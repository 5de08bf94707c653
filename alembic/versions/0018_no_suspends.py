"""Costguard stops VMs and suspends none: stops have no verb, and no request to suspend stays open."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_WHY = "Costguard no longer suspends VMs, so nothing was done. A stop can be requested instead."


def upgrade() -> None:
    now = {
        "sqlite": "CAST(strftime('%s', 'now') AS INTEGER) * 1000000",
        "postgresql": "CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)",
    }[op.get_bind().dialect.name]
    op.execute(
        f"UPDATE requests SET status = 'refused', outcome = '{_WHY}', settled_at = {now} "  # noqa: S608 no input
        "WHERE asked = 'suspend' AND status = 'open'"
    )
    op.execute("UPDATE requests SET asked = 'stop' WHERE asked = 'suspend'")
    # What Google accepted is settled by the ledger. A rule decides again where Google may not have been asked.
    op.execute(
        f"UPDATE stops SET outcome = 'not_needed', error = '{_WHY}', settled_at = {now} "  # noqa: S608 no input
        "WHERE verb = 'suspend' AND outcome IN ('intended', 'unknown') AND settled_at IS NULL"
    )
    op.drop_column("stops", "verb")


def downgrade() -> None:
    with op.batch_alter_table("stops") as stops:
        stops.add_column(sa.Column("verb", sa.String(), nullable=False, server_default="stop"))
    with op.batch_alter_table("stops") as stops:
        stops.alter_column("verb", server_default=None)
