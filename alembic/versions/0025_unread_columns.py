"""Columns that nothing reads are dropped, and two take the names of what they hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_INDEX = "ix_instances_present"
_BEFORE = (
    *("project", "preset", "status", "provisioning_model", "owner", "job", "gpu_type", "gpu_count"),
    *("termination_at", "rate_rank", "rate_nanos", "machine_rate_nanos", "running_since", "name", "id"),
)
_RENAMED = (("requests", "asked", "kind"), ("utilisation", "told", "announced"))


def upgrade() -> None:
    op.drop_index(_INDEX, "instances")
    op.drop_column("instances", "machine_rate_nanos")
    _create_index([name for name in _BEFORE if name not in ("job", "machine_rate_nanos")])
    for table, before, after in _RENAMED:
        op.alter_column(table, before, new_column_name=after)


def downgrade() -> None:
    for table, before, after in _RENAMED:
        op.alter_column(table, after, new_column_name=before)
    op.drop_index(_INDEX, "instances")
    op.add_column("instances", sa.Column("machine_rate_nanos", sa.BigInteger()))
    op.execute("DELETE FROM burn_rates")  # a version that reads it works it out again
    _create_index(_BEFORE)


def _create_index(names: list[str] | tuple[str, ...]) -> None:
    is_present = sa.text("gone_at IS NULL")
    op.create_index(_INDEX, "instances", list(names), sqlite_where=is_present, postgresql_where=is_present)
