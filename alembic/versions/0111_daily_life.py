"""What the team's daily life needs of the tables: each piece of it adds its own function here."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds what each piece needs."""
    add_limit_waits()
    _early_ends()


def add_limit_waits() -> None:
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


def _early_ends() -> None:
    """Adds why jobs were ended early, and which members of sweeps were stopped by halving, or are kept from it."""
    json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
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
