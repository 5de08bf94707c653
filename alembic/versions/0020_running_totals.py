"""Running totals of what open lifetimes and storage accrue; indexes that only their grouping needed are dropped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_GROUP = ("project", "preset", "owner", "job", "provisioning_model")
_FIGURES = (
    *("machine_rate", "gpu_rate", "storage_rate", "running"),
    *("machine_nanos", "gpu_nanos", "storage_nanos", "seconds"),
)
_OPEN = sa.text("ended_at IS NULL")
_ALIKE = {
    "lifetimes": (
        *("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib", "provisioning_model"),
        *("zone", "charged_to", "project", "preset", "owner", "job", "unpriced", "started_at", "instance_id", "id"),
    ),
    "storage_spans": (
        *("resource", "size_mib", "zone", "charged_to", "project", "preset", "owner", "job", "unpriced"),
        *("started_at", "instance_id", "id"),
    ),
}


def upgrade() -> None:
    op.create_table(
        "running_totals",
        *(sa.Column(name, sa.String(), nullable=False) for name in _GROUP),
        sa.Column("day", sa.Date(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _FIGURES),
        sa.PrimaryKeyConstraint(*_GROUP, "day", name=op.f("pk_running_totals")),
    )
    # Without a basis, readers add the ledger up, and the first pass makes rates and totals from it.
    op.execute("DELETE FROM burn_rates")
    for table in _ALIKE:
        op.drop_index(f"ix_{table}_alike", table)


def downgrade() -> None:
    for table, columns in _ALIKE.items():
        op.create_index(f"ix_{table}_alike", table, list(columns), sqlite_where=_OPEN, postgresql_where=_OPEN)
    op.execute("DELETE FROM burn_rates")
    op.drop_table("running_totals")
