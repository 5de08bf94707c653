"""Placement policies of jobs, and how many VMs ran a round of a gang, so that its work counts at its own width."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from costguard.db.change_triggers import count_changes

revision = "0110"
down_revision = "0109"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gang_rounds", sa.Column("vms", sa.Integer(), nullable=True))
    op.create_table(
        "placement_policies",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("wanted_at", sa.BigInteger(), nullable=False),
        sa.Column("ready_at", sa.BigInteger(), nullable=True),
        sa.Column("refused", sa.Text(), server_default="", nullable=False),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("try_after", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_placement_policies_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "region", name=op.f("pk_placement_policies")),
    )
    is_open = sa.text("gone_at IS NULL")
    op.create_index(
        "ix_placement_policies_open", "placement_policies", ["job_id"], sqlite_where=is_open, postgresql_where=is_open
    )
    count_changes(op.get_bind(), "placement_policies")
