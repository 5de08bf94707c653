"""Placement policies of jobs, the number of VMs of a gang's round, and schedules of jobs with their runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

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
    _schedules()


_LIVE = sa.text("state <> 'ended'")
_PENDING = sa.text("outcome = 'launching'")


def _json() -> sa.types.TypeEngine[object]:
    return sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def _schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("request_digest", sa.String(), server_default="", nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("cron", sa.String(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("overlaps", sa.Boolean(), nullable=False),
        sa.Column("late_s", sa.BigInteger(), nullable=True),
        sa.Column("template", _json(), nullable=False),
        sa.Column("authority", _json(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("next_due", sa.BigInteger(), nullable=True),
        sa.Column("via", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_schedules_idempotency_key")),
    )
    op.create_index("ix_schedules_created_at", "schedules", ["created_at", "id"])
    op.create_index("ix_schedules_live", "schedules", ["id"], sqlite_where=_LIVE, postgresql_where=_LIVE)
    op.create_table(
        "schedule_runs",
        sa.Column("schedule_id", sa.String(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("tried_at", sa.BigInteger(), nullable=True),
        sa.Column("asked_by", sa.String(), server_default="", nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_schedule_runs_job_id_jobs")),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedules.id"], name=op.f("fk_schedule_runs_schedule_id_schedules")),
        sa.PrimaryKeyConstraint("schedule_id", "due_at", name=op.f("pk_schedule_runs")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_schedule_runs_idempotency_key")),
    )
    op.create_index("ix_schedule_runs_job", "schedule_runs", ["job_id"])
    op.create_index(
        "ix_schedule_runs_pending",
        "schedule_runs",
        ["schedule_id"],
        sqlite_where=_PENDING,
        postgresql_where=_PENDING,
    )
    count_changes(op.get_bind(), "schedules")
    count_changes(op.get_bind(), "schedule_runs")
