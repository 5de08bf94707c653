"""Sweeps, their members, and the jobs of those."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_OPEN = sa.text("state = 'running'")


def upgrade() -> None:
    json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("request_digest", sa.String(), server_default="", nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("at_once", sa.Integer(), nullable=False),
        sa.Column("ceiling_nanos", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("via", sa.String(), nullable=False),
        sa.Column("code", json, nullable=True),
        sa.Column("round", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_asked_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_asked_by", sa.String(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_sweeps_idempotency_key")),
    )
    op.create_index("ix_sweeps_created_at", "sweeps", ["created_at", "id"])
    op.create_index("ix_sweeps_open", "sweeps", ["id"], sqlite_where=_OPEN, postgresql_where=_OPEN)
    op.create_table(
        "sweep_members",
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parameters", json, nullable=False),
        sa.Column("spec", json, nullable=False),
        sa.Column("recipe", json, nullable=False),
        sa.Column("tries", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_sweep_members_sweep_id")),
        sa.PrimaryKeyConstraint("sweep_id", "number", name=op.f("pk_sweep_members")),
    )
    op.create_table(
        "sweep_jobs",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("try", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_sweep_jobs_job_id")),
        sa.ForeignKeyConstraint(
            ["sweep_id", "number"],
            ["sweep_members.sweep_id", "sweep_members.number"],
            name=op.f("fk_sweep_jobs_sweep_id_number"),
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_sweep_jobs")),
        sa.UniqueConstraint("sweep_id", "number", "try", name=op.f("uq_sweep_jobs_sweep_id_number_try")),
    )


def downgrade() -> None:
    for table in ("sweep_jobs", "sweep_members", "sweeps"):
        op.drop_table(table)
