"""The latest evidence of idleness, one row a running VM."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "utilisation",
        sa.Column("instance_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_started_at", sa.BigInteger(), nullable=False),
        sa.Column("measured_at", sa.BigInteger(), nullable=False),
        sa.Column("good_until", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("is_weak", sa.Boolean(), nullable=False),
        sa.Column("gpu_mean_bp", sa.Integer(), nullable=True),
        sa.Column("gpu_max_bp", sa.Integer(), nullable=True),
        sa.Column("cpu_max_bp", sa.Integer(), nullable=True),
        sa.Column("told", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_utilisation_instance_id")),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_utilisation")),
    )


def downgrade() -> None:
    op.drop_table("utilisation")
