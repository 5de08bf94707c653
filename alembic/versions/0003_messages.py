"""People, messages to them, what they ask for, and stops."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("direct_channel", sa.String(), server_default="", nullable=False),
        sa.Column("looked_up_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("address", name=op.f("pk_people")),
    )
    op.create_index("ix_people_user_id", "people", ["user_id"])

    op.create_table(
        "messages",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), server_default="", nullable=False),
        sa.Column("instance_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("cycle", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("stage", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("target", sa.String(), server_default="", nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("data", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("intended_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("try_after", sa.BigInteger(), nullable=False),
        sa.Column("sending_at", sa.BigInteger(), nullable=True),
        sa.Column("accepted_at", sa.BigInteger(), nullable=True),
        sa.Column("channel", sa.String(), server_default="", nullable=False),
        sa.Column("ts", sa.String(), server_default="", nullable=False),
        sa.Column("thread_ts", sa.String(), server_default="", nullable=False),
        sa.Column("shown", sa.String(), server_default="", nullable=False),
        sa.Column("is_live", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_messages_instance_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sa.UniqueConstraint("key", name=op.f("uq_messages_key")),
    )
    op.create_index(
        "ix_messages_live",
        "messages",
        ["id"],
        sqlite_where=sa.text("is_live"),
        postgresql_where=sa.text("is_live"),
    )
    op.create_index("ix_messages_subject", "messages", ["subject"])
    op.create_index(
        "ix_messages_waiting",
        "messages",
        ["try_after"],
        sqlite_where=sa.text("status IN ('intended', 'sending')"),
        postgresql_where=sa.text("status IN ('intended', 'sending')"),
    )

    op.create_table(
        "requests",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("asked", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("instance_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("via", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("hours", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.String(), server_default="open", nullable=False),
        sa.Column("outcome", sa.Text(), server_default="", nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_requests_instance_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
        sa.UniqueConstraint("key", name=op.f("uq_requests_key")),
    )
    op.create_index(
        "ix_requests_open",
        "requests",
        ["id"],
        sqlite_where=sa.text("status = 'open'"),
        postgresql_where=sa.text("status = 'open'"),
    )
    op.create_index("ix_requests_subject", "requests", ["subject"])

    op.create_table(
        "claims",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("instance_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("request_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_claims_instance_id")),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=op.f("fk_claims_request_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_claims")),
        sa.UniqueConstraint("request_id", name=op.f("uq_claims_request_id")),
    )
    op.create_index("ix_claims_instance", "claims", ["instance_id"])

    op.create_table(
        "keeps",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("instance_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("request_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_keeps_instance_id")),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=op.f("fk_keeps_request_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keeps")),
        sa.UniqueConstraint("request_id", name=op.f("uq_keeps_request_id")),
    )
    op.create_index("ix_keeps_subject", "keeps", ["subject"])

    op.create_table(
        "stops",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("instance_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("verb", sa.String(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("evidence", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.Column("reminder", sa.String(), nullable=False),
        sa.Column("request_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("request_uuid", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("operation", sa.String(), server_default="", nullable=False),
        sa.Column("intended_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("try_after", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("rate_nanos", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_stops_instance_id")),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=op.f("fk_stops_request_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stops")),
        sa.UniqueConstraint("key", name=op.f("uq_stops_key")),
    )
    op.create_index("ix_stops_intended_at", "stops", ["intended_at"])
    op.create_index("ix_stops_subject", "stops", ["subject"])


def downgrade() -> None:
    for table in ("stops", "keeps", "claims", "requests", "messages", "people"):
        op.drop_table(table)
