"""Jobs, the VMs that try them, what interrupted them, and what they saved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("request_digest", sa.String(), server_default="", nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.Column("recipe", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("via", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_asked_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_asked_by", sa.String(), server_default="", nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("looked_at", sa.BigInteger(), nullable=True),
        sa.Column("look_error", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "look_torn", sa.JSON().with_variant(JSONB, "postgresql"), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column("look_resume_from", sa.String(), server_default="", nullable=False),
        sa.Column("look_step", sa.BigInteger(), nullable=True),
        sa.Column("look_written_at", sa.BigInteger(), nullable=True),
        sa.Column("advanced_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_jobs_idempotency_key")),
    )
    op.create_index("ix_jobs_created_at", "jobs", ["created_at", "id"])
    op.create_index(
        "ix_jobs_open",
        "jobs",
        ["id"],
        sqlite_where=sa.text("state IN ('queued', 'provisioning', 'running', 'recovering')"),
        postgresql_where=sa.text("state IN ('queued', 'provisioning', 'running', 'recovering')"),
    )
    op.create_index("ix_jobs_owner", "jobs", ["owner", "created_at"])
    op.create_table(
        "signing_keys",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_signing_keys")),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("gpu_type", sa.String(), nullable=False),
        sa.Column("provisioning_model", sa.String(), nullable=False),
        sa.Column("request_uuid", sa.String(), nullable=False),
        sa.Column("max_run_s", sa.BigInteger(), nullable=False),
        sa.Column("rate_nanos", sa.BigInteger(), nullable=True),
        sa.Column("resume_from", sa.String(), server_default="", nullable=False),
        sa.Column("resume_step", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("intended_at", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=True),
        sa.Column("operation", sa.String(), server_default="", nullable=False),
        sa.Column("gce_id", sa.String(), server_default="", nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=True),
        sa.Column("stop_asked_at", sa.BigInteger(), nullable=True),
        sa.Column("stop_why", sa.String(), server_default="", nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("delete_asked_at", sa.BigInteger(), nullable=True),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.Column("restarts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("try_after", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=True),
        sa.Column("run", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("booted_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("noticed_at", sa.BigInteger(), nullable=True),
        sa.Column("maintenance_at", sa.BigInteger(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("step_at", sa.BigInteger(), nullable=True),
        sa.Column(
            "machine", sa.JSON().with_variant(JSONB, "postgresql"), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column("output", sa.Text(), server_default="", nullable=False),
        sa.Column("exit", sa.JSON().with_variant(JSONB, "postgresql"), nullable=True),
        sa.Column("accepted_through", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_attempts_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("job_id", "number", name=op.f("uq_attempts_job_id_number")),
        sa.UniqueConstraint("name", "project", name=op.f("uq_attempts_name_project")),
    )
    op.create_index("ix_attempts_ended_at", "attempts", ["ended_at"])
    op.create_index("ix_attempts_instance", "attempts", ["project", "gce_id"])
    op.create_index(
        "ix_attempts_live",
        "attempts",
        ["job_id"],
        sqlite_where=sa.text("state <> 'over'"),
        postgresql_where=sa.text("state <> 'over'"),
    )
    op.create_table(
        "seen_checkpoints",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("resume_from", sa.String(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_seen_checkpoints_job_id")),
        sa.PrimaryKeyConstraint("job_id", "resume_from", "written_at", name=op.f("pk_seen_checkpoints")),
    )
    op.create_table(
        "interruptions",
        sa.Column(
            "attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("run", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("happened_at", sa.BigInteger(), nullable=False),
        sa.Column("noticed_at", sa.BigInteger(), nullable=False),
        sa.Column("noticed_by", sa.String(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=True),
        sa.Column("resumed_at", sa.BigInteger(), nullable=True),
        sa.Column("lost_s", sa.BigInteger(), nullable=True),
        sa.Column("lost_nanos", sa.BigInteger(), nullable=True),
        sa.Column("from_zero", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_interruptions_attempt_id")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_interruptions_job_id")),
        sa.PrimaryKeyConstraint("attempt_id", "run", name=op.f("pk_interruptions")),
    )
    op.create_index("ix_interruptions_happened_at", "interruptions", ["happened_at"])
    op.create_index("ix_interruptions_job", "interruptions", ["job_id"])
    for table in ("lifetimes", "storage_spans"):
        has_job = sa.text("job <> ''")
        op.create_index(f"ix_{table}_job", table, ["job"], sqlite_where=has_job, postgresql_where=has_job)


def downgrade() -> None:
    for table in ("lifetimes", "storage_spans"):
        op.drop_index(f"ix_{table}_job", table)
    for table in ("interruptions", "seen_checkpoints", "attempts", "signing_keys", "jobs"):
        op.drop_table(table)
