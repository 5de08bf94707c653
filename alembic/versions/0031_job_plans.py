"""What is planned for jobs with a deadline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    op.create_table(
        "job_plans",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("plan", json, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_plans_job_id")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_plans")),
    )


def downgrade() -> None:
    op.drop_table("job_plans")
