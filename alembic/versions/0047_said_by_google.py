"""What Google says of a VM's keeper, of zones with capacity, and of runs that it began again by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

# What every report of an agent changes: see 0037.
_REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)


def upgrade() -> None:
    json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.add_column("instances", sa.Column("origin", json, nullable=False, server_default=sa.text("'{}'")))
    op.add_column("attempts", sa.Column("zones_available", json, nullable=False, server_default=sa.text("'[]'")))
    op.add_column("lifetimes", sa.Column("age_from", sa.BigInteger()))
    _count(_REPORTED)


def downgrade() -> None:
    _count(_REPORTED.union({"zones_available"}))  # a column that a trigger names cannot be dropped
    op.drop_column("lifetimes", "age_from")
    op.drop_column("attempts", "zones_available")
    op.drop_column("instances", "origin")


def _count(without: frozenset[str]) -> None:
    """Count changes of all columns but these."""
    columns = [column["name"] for column in sa.inspect(op.get_bind()).get_columns("attempts")]
    names = ", ".join(name for name in columns if name not in without)
    if op.get_context().dialect.name == "sqlite":
        op.execute("DROP TRIGGER count_update_attempts")
        op.execute(  # no part of this text comes from outside
            f"CREATE TRIGGER count_update_attempts AFTER UPDATE OF {names} ON attempts BEGIN "  # noqa: S608
            "UPDATE changes SET number = number + 1 WHERE table_name = 'attempts'; END"
        )
        return
    op.execute("DROP TRIGGER count_change ON attempts")
    op.execute(
        f"CREATE TRIGGER count_change AFTER INSERT OR UPDATE OF {names} OR DELETE OR TRUNCATE ON attempts "
        "FOR EACH STATEMENT EXECUTE FUNCTION count_change()"
    )
