"""Progress of attempts, and the points of their jobs' curves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    id_type = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column(
        "attempts", sa.Column("progress", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True)
    )
    op.create_table(
        "progress_points",
        sa.Column("id", id_type, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("attempt_id", id_type, nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("series", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("unit", sa.String(), nullable=True),
        sa.Column("done", sa.Double(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_progress_points_attempt_id")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_progress_points_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_progress_points")),
    )
    op.create_index("ix_progress_points_series", "progress_points", ["job_id", "series", "id"])


def downgrade() -> None:
    op.drop_table("progress_points")
    op.drop_column("attempts", "progress")
