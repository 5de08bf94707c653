"""What every report of an agent changes is no change of its attempt that pages are made again for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

_REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)


def upgrade() -> None:
    columns = [column["name"] for column in sa.inspect(op.get_bind()).get_columns("attempts")]
    _count(" OF " + ", ".join(name for name in columns if name not in _REPORTED))


def downgrade() -> None:
    _count("")


def _count(of_columns: str) -> None:
    if op.get_context().dialect.name == "sqlite":
        # The first commits of 0006 counted fewer tables: their databases have none for this one.
        op.execute("DROP TRIGGER IF EXISTS count_update_attempts")
        op.execute(  # no part of this text comes from outside
            f"CREATE TRIGGER count_update_attempts AFTER UPDATE{of_columns} ON attempts BEGIN "  # noqa: S608
            "UPDATE changes SET number = number + 1 WHERE table_name = 'attempts'; END"
        )
        return
    op.execute("DROP TRIGGER IF EXISTS count_change ON attempts")
    op.execute(
        f"CREATE TRIGGER count_change AFTER INSERT OR UPDATE{of_columns} OR DELETE OR TRUNCATE ON attempts "
        "FOR EACH STATEMENT EXECUTE FUNCTION count_change()"
    )
