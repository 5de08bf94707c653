"""Drills of preemptions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drills",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("result", sa.String(), nullable=True),
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("began_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("grace_ms", sa.BigInteger(), nullable=True),
        sa.Column("saved_ms", sa.BigInteger(), nullable=True),
        sa.Column("uploaded_ms", sa.BigInteger(), nullable=True),
        sa.Column("resumed_ms", sa.BigInteger(), nullable=True),
        sa.Column("goes_on", sa.String(), server_default="", nullable=False),
        sa.Column("checkpoint", sa.String(), server_default="", nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("step_before", sa.BigInteger(), nullable=True),
        sa.Column("why", sa.Text(), server_default="", nullable=False),
        sa.Column("was_killed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_drills_attempt_id")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_drills_job_id")),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_drills")),
    )


def downgrade() -> None:
    op.drop_table("drills")
