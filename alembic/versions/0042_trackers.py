"""Jobs name runs of experiment trackers, and points wait to be logged to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "tracked_runs",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("tracker", sa.String(), nullable=False),
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("point_at", sa.BigInteger()),
        sa.Column("step", sa.BigInteger()),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("waiting", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("logged_at", sa.BigInteger()),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("try_after", sa.BigInteger()),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("refused_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_tracked_runs_job_id_jobs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tracked_runs")),
    )
    op.create_index("ix_tracked_runs_job", "tracked_runs", ["job_id"])
    _partial("ix_tracked_runs_open", ["id"], "ended_at IS NULL")
    _partial("ix_tracked_runs_waiting", ["tracker", "id"], "waiting > 0")
    op.create_table(
        "tracker_points",
        sa.Column("run_id", _ID, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger()),
        sa.Column("cost_nanos", sa.BigInteger()),
        sa.Column("per_1000_nanos", sa.BigInteger()),
        sa.Column("preemptions", sa.Integer(), nullable=False),
        sa.Column("lost_s", sa.BigInteger(), nullable=False),
        sa.Column("lost_nanos", sa.BigInteger(), nullable=False),
        sa.Column("is_tried", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["tracked_runs.id"], name=op.f("fk_tracker_points_run_id_tracked_runs")),
        sa.PrimaryKeyConstraint("run_id", "at", name=op.f("pk_tracker_points")),
    )


def _partial(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "tracked_runs", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def downgrade() -> None:
    op.drop_table("tracker_points")
    op.drop_table("tracked_runs")
