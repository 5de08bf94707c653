"""What the team's daily life needs of the tables: each piece of it adds its own function here."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from costguard.db.change_triggers import count_changes

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Calls each piece's own function."""
    _limit_waits()
    _job_profiles()
    _data_stages()
    _early_ends()


def _limit_waits() -> None:
    """Adds the jobs that wait for a limit on what is in use at once."""
    op.create_table(
        "limit_waits",
        sa.Column("job_id", sa.String, sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("most", sa.Integer, nullable=False),
        sa.Column("least", sa.Integer, nullable=False),
        sa.Column("rate_nanos", sa.BigInteger),
        sa.Column("takes_s", sa.BigInteger),
    )


def _job_profiles() -> None:
    json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.create_table(
        "job_profiles",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("attempt_id", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("windows", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("rereads", json, nullable=False),
        sa.Column("profile", json, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_profiles_job_id_jobs")),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_job_profiles_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_profiles")),
    )
    count_changes(op.get_bind(), "job_profiles")


def _data_stages() -> None:
    """Adds the tables of data that is staged near the VMs."""
    op.create_table(
        "data_stages",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("staged", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("note", sa.String(), server_default="", nullable=False),
        sa.Column("holder", sa.String(), server_default="", nullable=False),
        sa.Column("renewed_at", sa.BigInteger(), nullable=True),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.Column("whole_at", sa.BigInteger(), nullable=True),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("delete_asked_by", sa.String(), server_default="", nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_data_stages")),
    )
    is_stored = sa.text("state <> 'deleted'")
    op.create_index("ix_data_stages_source", "data_stages", ["source"])
    op.create_index(
        "ix_data_stages_stored", "data_stages", ["digest"], sqlite_where=is_stored, postgresql_where=is_stored
    )
    op.create_table(
        "stage_uses",
        sa.Column("attempt", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("from_source", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("attempt", "digest", name=op.f("pk_stage_uses")),
    )
    op.create_index("ix_stage_uses_job_id", "stage_uses", ["job_id"])
    op.create_index("ix_stage_uses_digest", "stage_uses", ["digest"])
    for table in ("data_stages", "stage_uses"):
        count_changes(op.get_bind(), table)


def _early_ends() -> None:
    """Adds why jobs were ended early, and which members of sweeps were stopped by halving, or are kept from it."""
    json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    moment = sa.BigInteger()
    for name in ("early_why", "early_reason"):
        op.add_column("jobs", sa.Column(name, sa.Text(), server_default="", nullable=False))
    op.add_column("sweeps", sa.Column("halving", json, nullable=True))
    op.add_column("sweeps", sa.Column("halving_ended_at", moment, nullable=True))
    op.add_column("sweeps", sa.Column("halving_ended_by", sa.String(), server_default="", nullable=False))
    op.add_column("sweep_members", sa.Column("kept_at", moment, nullable=True))
    op.add_column("sweep_members", sa.Column("kept_by", sa.String(), server_default="", nullable=False))
    op.create_table(
        "sweep_stops",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("stopped_at", moment, nullable=False),
        sa.Column("step", sa.Double(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rest_s", sa.BigInteger(), nullable=True),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("saved_nanos", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_sweep_stops")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_sweep_stops_job_id")),
        sa.ForeignKeyConstraint(
            ["sweep_id", "number"],
            ["sweep_members.sweep_id", "sweep_members.number"],
            name=op.f("fk_sweep_stops_sweep_id_number"),
        ),
    )
