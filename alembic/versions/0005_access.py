"""Who may ask: tokens, sign-in links and ended sessions. How far facts were sent on. The role of who asked.

What every instance costs an hour, which the first pass works out, and each day's spend by owner.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_PRESENT = {
    "ix_instances_present": "project preset status provisioning_model owner job gpu_type gpu_count termination_at "
    "rate_rank rate_nanos machine_rate_nanos running_since name id",
    "ix_instances_rate": "rate_rank name id rate_nanos running_since",
}
_ALIKE = {
    "lifetimes": "machine_type vcpus memory_mib gpu_type gpu_count local_ssd_gib provisioning_model zone charged_to "
    "project preset owner job unpriced started_at instance_id id",
    "storage_spans": "resource size_mib zone charged_to project preset owner job unpriced started_at instance_id id",
}


def upgrade() -> None:
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("is_granted", sa.Boolean(), nullable=False),
        sa.Column("permissions", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("made_by", sa.String(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.String(), server_default="", nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_tokens_digest")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_api_tokens_idempotency_key")),
    )
    op.create_index("ix_api_tokens_owner", "api_tokens", ["owner"])
    op.create_table(
        "ended_sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ended_sessions")),
    )
    op.create_table(
        "sign_in_links",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sign_in_links")),
    )
    op.create_table(
        "webhooks",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("fact_id", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("try_after", sa.BigInteger(), nullable=True),
        sa.Column("accepted_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhooks")),
    )
    op.add_column("requests", sa.Column("role", sa.String(), server_default="", nullable=False))
    for name in ("running_since", "rate_nanos", "machine_rate_nanos", "rate_rank"):
        op.add_column("instances", sa.Column(name, sa.BigInteger(), nullable=True))
    op.drop_index("ix_instances_present", "instances")
    for index, columns in _PRESENT.items():
        _index(index, "instances", columns, "gone_at IS NULL")
    for table, columns in _ALIKE.items():
        op.add_column(table, sa.Column("project", sa.String(), server_default="", nullable=False))
        # No part of this text comes from outside.
        op.execute(
            f"UPDATE {table} SET project = (SELECT project FROM instances WHERE instances.id = {table}.instance_id)"  # noqa: S608
        )
        op.drop_index(f"ix_{table}_ended_at", table)
        _index(f"ix_{table}_ended_at", table, "ended_at", "ended_at IS NOT NULL")
        _index(f"ix_{table}_alike", table, columns, "ended_at IS NULL")
        op.drop_index(f"ix_{table}_open_charged_to", table)
        _index(f"ix_{table}_open_charged_to", table, "charged_to started_at", "ended_at IS NULL")
    op.create_table(
        "burn_rates",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("prices", sa.String(), nullable=False),
        sa.Column("good_from", sa.BigInteger(), nullable=True),
        sa.Column("good_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_burn_rates")),
    )
    op.create_table(
        "daily_owners",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("machine_nanos", sa.BigInteger(), nullable=False),
        sa.Column("gpu_nanos", sa.BigInteger(), nullable=False),
        sa.Column("storage_nanos", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "project", "owner", name=op.f("pk_daily_owners")),
    )
    op.create_index("ix_daily_owners_owner", "daily_owners", ["owner", "day"])
    op.execute(
        "INSERT INTO daily_owners (day, project, owner, machine_nanos, gpu_nanos, storage_nanos, seconds) "
        "SELECT day, project, owner, SUM(machine_nanos), SUM(gpu_nanos), SUM(storage_nanos), SUM(seconds) "
        "FROM daily_spend GROUP BY day, project, owner"
    )


def downgrade() -> None:
    op.drop_index("ix_daily_owners_owner", "daily_owners")
    op.drop_table("daily_owners")
    op.drop_table("burn_rates")
    for table in _ALIKE:
        op.drop_index(f"ix_{table}_open_charged_to", table)
        _index(f"ix_{table}_open_charged_to", table, "charged_to", "ended_at IS NULL")
        op.drop_index(f"ix_{table}_alike", table)
        op.drop_index(f"ix_{table}_ended_at", table)
        op.create_index(f"ix_{table}_ended_at", table, ["ended_at"])
        op.drop_column(table, "project")
    for index in _PRESENT:
        op.drop_index(index, "instances")
    _index("ix_instances_present", "instances", "project", "gone_at IS NULL")
    for name in ("rate_rank", "machine_rate_nanos", "rate_nanos", "running_since"):
        op.drop_column("instances", name)
    op.drop_column("requests", "role")
    op.drop_table("webhooks")
    op.drop_table("sign_in_links")
    op.drop_table("ended_sessions")
    op.drop_index("ix_api_tokens_owner", "api_tokens")
    op.drop_table("api_tokens")


def _index(name: str, table: str, columns: str, where: str) -> None:
    op.create_index(name, table, columns.split(), sqlite_where=sa.text(where), postgresql_where=sa.text(where))
