"""The rounds of gangs that are over: what each resumed from, how far it came, and what of its work was lost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from costguard.db.change_triggers import count_changes

revision = "0108"
down_revision = "0107"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gang_rounds",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("resume_from", sa.String(), nullable=False),
        sa.Column("resume_step", sa.BigInteger(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("rate_nanos", sa.BigInteger(), nullable=True),
        sa.Column("lost_s", sa.BigInteger(), nullable=True),
        sa.Column("lost_nanos", sa.BigInteger(), nullable=True),
        sa.Column("from_zero", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_gang_rounds_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_gang_rounds")),
    )
    count_changes(op.get_bind(), "gang_rounds")
