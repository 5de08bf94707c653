"""What bounds jobs: the last minutes of signals of each attempt, and the verdicts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "activity_minutes",
        sa.Column("attempt_id", number, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("minute", json, nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("step_at", sa.BigInteger(), nullable=True),
        sa.Column("is_judged", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_activity_minutes_attempt_id")),
        sa.PrimaryKeyConstraint("attempt_id", "at", name=op.f("pk_activity_minutes")),
    )
    op.create_table(
        "job_bounds",
        sa.Column("id", number, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("attempt_id", number, nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("bound", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("windows", sa.Integer(), nullable=False),
        sa.Column("share_ppm", sa.BigInteger(), nullable=True),
        sa.Column("numbers", json, nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("advice", sa.Text(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=True),
        sa.Column("step_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_job_bounds_attempt_id")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_bounds_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_bounds")),
    )
    op.create_index("ix_job_bounds_job", "job_bounds", ["job_id", "id"])


def downgrade() -> None:
    op.drop_index("ix_job_bounds_job", table_name="job_bounds")
    op.drop_table("job_bounds")
    op.drop_table("activity_minutes")
