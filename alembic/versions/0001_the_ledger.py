"""The ledger: projects, instances, lifetimes, storage, charges, prices, operations, facts and the lease."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "daily_spend",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("provisioning_model", sa.String(), nullable=False),
        sa.Column("machine_nanos", sa.BigInteger(), nullable=False),
        sa.Column("gpu_nanos", sa.BigInteger(), nullable=False),
        sa.Column("storage_nanos", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "day", "project", "preset", "owner", "job", "provisioning_model", name=op.f("pk_daily_spend")
        ),
    )
    op.create_table(
        "daily_totals",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("provisioning_model", sa.String(), nullable=False),
        sa.Column("machine_nanos", sa.BigInteger(), nullable=False),
        sa.Column("gpu_nanos", sa.BigInteger(), nullable=False),
        sa.Column("storage_nanos", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "project", "preset", "provisioning_model", name=op.f("pk_daily_totals")),
    )
    op.create_table(
        "facts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.String(), server_default="", nullable=False),
        sa.Column("gce_id", sa.String(), server_default="", nullable=False),
        sa.Column("name", sa.String(), server_default="", nullable=False),
        sa.Column("actor", sa.String(), server_default="", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_facts")),
        sa.UniqueConstraint("key", name=op.f("uq_facts_key")),
    )
    op.create_index("ix_facts_instance", "facts", ["gce_id", "occurred_at"])
    op.create_index("ix_facts_kind", "facts", ["kind", "occurred_at"])
    op.create_index("ix_facts_occurred_at", "facts", ["occurred_at", "id"])

    op.create_table(
        "instances",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("gce_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_started_at", sa.BigInteger(), nullable=True),
        sa.Column("last_stopped_at", sa.BigInteger(), nullable=True),
        sa.Column("termination_at", sa.BigInteger(), nullable=True),
        sa.Column("machine_type", sa.String(), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mib", sa.Integer(), nullable=False),
        sa.Column("gpu_type", sa.String(), nullable=True),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("local_ssd_gib", sa.Integer(), nullable=False),
        sa.Column("provisioning_model", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("owner_source", sa.String(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instances")),
        sa.UniqueConstraint("project", "gce_id", name=op.f("uq_instances_project_gce_id")),
    )
    op.create_index(
        "ix_instances_present",
        "instances",
        ["project"],
        sqlite_where=sa.text("gone_at IS NULL"),
        postgresql_where=sa.text("gone_at IS NULL"),
    )

    op.create_table(
        "leases",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "operations",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("operation_id", sa.String(), nullable=False),
        sa.Column("target_id", sa.String(), nullable=False),
        sa.Column("target_name", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("error_code", sa.String(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("status_message", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("project", "operation_id", name=op.f("pk_operations")),
    )
    op.create_index("ix_operations_target", "operations", ["project", "target_id"])

    op.create_table(
        "price_refusals",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("provisioning_model", sa.String(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("rate_nanos", sa.BigInteger(), nullable=False),
        sa.Column("in_force_from", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("sku_id", sa.String(), server_default="", nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("refused_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_refusals")),
        sa.UniqueConstraint(
            "resource",
            "region",
            "provisioning_model",
            "rate_nanos",
            name=op.f("uq_price_refusals_resource_region_provisioning_model_rate_nanos"),
        ),
    )
    op.create_table(
        "prices",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("provisioning_model", sa.String(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("rate_nanos", sa.BigInteger(), nullable=False),
        sa.Column("in_force_from", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("sku_id", sa.String(), server_default="", nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prices")),
        sa.UniqueConstraint(
            "resource",
            "region",
            "provisioning_model",
            "in_force_from",
            name=op.f("uq_prices_resource_region_provisioning_model_in_force_from"),
        ),
    )
    op.create_table(
        "projects",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_tried_at", sa.BigInteger(), nullable=False),
        sa.Column("last_complete_at", sa.BigInteger(), nullable=True),
        sa.Column("operations_through_at", sa.BigInteger(), nullable=True),
        sa.Column("unread", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.Column("instance_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_projects")),
    )
    op.create_table(
        "charges",
        sa.Column("span", sa.String(), nullable=False),
        sa.Column("span_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("seconds", sa.BigInteger(), nullable=False),
        sa.Column("quantity_millis", sa.BigInteger(), nullable=False),
        sa.Column("price_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("amount_nanos", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["price_id"], ["prices.id"], name=op.f("fk_charges_price_id")),
        sa.PrimaryKeyConstraint("span", "span_id", "resource", "started_at", name=op.f("pk_charges")),
    )
    op.create_index("ix_charges_day", "charges", ["day"])

    op.create_table(
        "lifetimes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("instance_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("end_reason", sa.String(), nullable=True),
        sa.Column("ended_by", sa.String(), server_default="", nullable=False),
        sa.Column("end_is_estimate", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("machine_type", sa.String(), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mib", sa.Integer(), nullable=False),
        sa.Column("gpu_type", sa.String(), nullable=True),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("local_ssd_gib", sa.Integer(), nullable=False),
        sa.Column("provisioning_model", sa.String(), nullable=False),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("charged_to", sa.BigInteger(), nullable=True),
        sa.Column("unpriced", sa.String(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_lifetimes_instance_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lifetimes")),
        sa.UniqueConstraint("instance_id", "started_at", name=op.f("uq_lifetimes_instance_id_started_at")),
    )
    op.create_index("ix_lifetimes_ended_at", "lifetimes", ["ended_at"])
    op.create_index(
        "ix_lifetimes_open",
        "lifetimes",
        ["instance_id"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_lifetimes_open_charged_to",
        "lifetimes",
        ["charged_to"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_lifetimes_uncharged",
        "lifetimes",
        ["charged_to"],
        sqlite_where=sa.text("ended_at IS NOT NULL AND (charged_to IS NULL OR charged_to <> ended_at)"),
        postgresql_where=sa.text("ended_at IS NOT NULL AND (charged_to IS NULL OR charged_to <> ended_at)"),
    )
    op.create_index(
        "ix_lifetimes_unpriced",
        "lifetimes",
        ["started_at"],
        sqlite_where=sa.text("unpriced <> ''"),
        postgresql_where=sa.text("unpriced <> ''"),
    )

    op.create_table(
        "storage_spans",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("instance_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=True),
        sa.Column("size_mib", sa.Integer(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("preset", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("charged_to", sa.BigInteger(), nullable=True),
        sa.Column("unpriced", sa.String(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_storage_spans_instance_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_storage_spans")),
        sa.UniqueConstraint(
            "instance_id", "name", "started_at", name=op.f("uq_storage_spans_instance_id_name_started_at")
        ),
    )
    op.create_index("ix_storage_spans_ended_at", "storage_spans", ["ended_at"])
    op.create_index(
        "ix_storage_spans_open",
        "storage_spans",
        ["instance_id"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_storage_spans_open_charged_to",
        "storage_spans",
        ["charged_to"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_storage_spans_uncharged",
        "storage_spans",
        ["charged_to"],
        sqlite_where=sa.text("ended_at IS NOT NULL AND (charged_to IS NULL OR charged_to <> ended_at)"),
        postgresql_where=sa.text("ended_at IS NOT NULL AND (charged_to IS NULL OR charged_to <> ended_at)"),
    )
    op.create_index(
        "ix_storage_spans_unpriced",
        "storage_spans",
        ["started_at"],
        sqlite_where=sa.text("unpriced <> ''"),
        postgresql_where=sa.text("unpriced <> ''"),
    )


def downgrade() -> None:
    op.drop_index("ix_storage_spans_unpriced", "storage_spans")
    op.drop_index("ix_storage_spans_uncharged", "storage_spans")
    op.drop_index("ix_storage_spans_open_charged_to", "storage_spans")
    op.drop_index("ix_storage_spans_open", "storage_spans")
    op.drop_index("ix_storage_spans_ended_at", "storage_spans")

    op.drop_table("storage_spans")
    op.drop_index("ix_lifetimes_unpriced", "lifetimes")
    op.drop_index("ix_lifetimes_uncharged", "lifetimes")
    op.drop_index("ix_lifetimes_open_charged_to", "lifetimes")
    op.drop_index("ix_lifetimes_open", "lifetimes")
    op.drop_index("ix_lifetimes_ended_at", "lifetimes")

    op.drop_table("lifetimes")
    op.drop_index("ix_charges_day", "charges")

    op.drop_table("charges")
    op.drop_table("projects")
    op.drop_table("prices")
    op.drop_table("price_refusals")
    op.drop_index("ix_operations_target", "operations")

    op.drop_table("operations")
    op.drop_table("leases")
    op.drop_index("ix_instances_present", "instances")

    op.drop_table("instances")
    op.drop_index("ix_facts_occurred_at", "facts")
    op.drop_index("ix_facts_kind", "facts")
    op.drop_index("ix_facts_instance", "facts")

    op.drop_table("facts")
    op.drop_table("daily_totals")
    op.drop_table("daily_spend")
