"""An organisation: events and what they say, projects that are found, and the replicas that watch each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from costguard.db.change_triggers import count_changes

revision = "0106"
down_revision = "0105"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _events()
    _subscription()
    _found_projects()
    _shards()


def _events() -> None:
    op.add_column("operations", sa.Column("name", sa.String(), server_default="", nullable=False))
    op.add_column("operations", sa.Column("end_from_entry", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table(
        "feed_requests",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("gce_id", sa.String(), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("request", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("project", "gce_id", name=op.f("pk_feed_requests")),
    )
    op.create_index(op.f("ix_feed_requests_heard_at"), "feed_requests", ["heard_at"])
    op.create_table(
        "feed_projects",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("first_heard_at", sa.BigInteger(), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("doubled", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.Column("missed_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_feed_projects")),
    )


def _subscription() -> None:
    op.add_column("projects", sa.Column("wanted_at", sa.BigInteger(), nullable=True))
    op.create_table(
        "feed_wire",
        sa.Column("subscription", sa.String(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("heard_at", sa.BigInteger(), nullable=True),
        sa.Column("pulled_at", sa.BigInteger(), nullable=True),
        sa.Column("message_at", sa.BigInteger(), nullable=True),
        sa.Column("can_publish", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("unread", sa.BigInteger(), nullable=True),
        sa.Column("oldest_unread_at", sa.BigInteger(), nullable=True),
        sa.Column("measured_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("subscription", name=op.f("pk_feed_wire")),
    )
    op.create_table(
        "hourly_counts",
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "what", name=op.f("pk_hourly_counts")),
    )


def _found_projects() -> None:
    op.create_table(
        "watched_projects",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("number", sa.String()),
        sa.Column("found_at", sa.BigInteger()),
        sa.Column("last_found_at", sa.BigInteger()),
        sa.Column("missed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("missing_since", sa.BigInteger()),
        sa.Column("gone_at", sa.BigInteger()),
        sa.Column("gone_because", sa.Text(), server_default="", nullable=False),
        sa.Column("refused_since", sa.BigInteger()),
        sa.Column("refusal_code", sa.String(), server_default="", nullable=False),
        sa.Column("refusal", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_watched_projects")),
    )
    op.create_table(
        "searched_places",
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("tried_at", sa.BigInteger(), nullable=False),
        sa.Column("searched_at", sa.BigInteger()),
        sa.Column("project_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed_since", sa.BigInteger()),
        sa.Column("failure_code", sa.String(), server_default="", nullable=False),
        sa.Column("failure", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("place", name=op.f("pk_searched_places")),
    )
    for table in ("watched_projects", "searched_places"):
        count_changes(op.get_bind(), table)


def _shards() -> None:
    op.create_table(
        "project_leases",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_project_leases")),
    )
    op.create_table(
        "replicas",
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("holder", name=op.f("pk_replicas")),
    )
