"""A VM can be made ready while another one runs its job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

_NEW = ("follows", "ready_at", "released_at")
# What every report of an agent changes: see 0037.
_REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)


def upgrade() -> None:
    op.add_column("attempts", sa.Column("follows", sa.Integer()))
    op.add_column("attempts", sa.Column("ready_at", sa.BigInteger()))
    op.add_column("attempts", sa.Column("released_at", sa.BigInteger()))
    _count(_REPORTED)


def downgrade() -> None:
    _count(_REPORTED.union(_NEW))  # a column that a trigger names cannot be dropped
    for name in reversed(_NEW):
        op.drop_column("attempts", name)


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
