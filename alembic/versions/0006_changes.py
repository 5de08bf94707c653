"""How often each table that pages read was changed, counted by the database, whoever writes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_COUNTED = (
    "attempts",
    "charges",
    "daily_owners",
    "daily_spend",
    "daily_totals",
    "instances",
    "interruptions",
    "lifetimes",
    "people",
    "projects",
    "requests",
    "storage_spans",
    "utilisation",
)


def upgrade() -> None:
    changes = op.create_table(
        "changes",
        sa.Column("table_name", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", name=op.f("pk_changes")),
    )
    op.bulk_insert(changes, [{"table_name": name, "number": 0} for name in _COUNTED])
    if _is_sqlite():
        for table in _COUNTED:
            for event in ("insert", "update", "delete"):
                op.execute(  # no part of this text comes from outside
                    f"CREATE TRIGGER count_{event}_{table} AFTER {event.upper()} ON {table} BEGIN "  # noqa: S608
                    f"UPDATE changes SET number = number + 1 WHERE table_name = '{table}'; END"
                )
        return
    # Once a transaction and table: ten thousand statements would each leave a version of the row behind.
    op.execute(
        "CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF coalesce(current_setting('costguard.' || TG_TABLE_NAME, true), '') = '' THEN "
        "UPDATE changes SET number = number + 1 WHERE table_name = TG_TABLE_NAME; "
        "PERFORM set_config('costguard.' || TG_TABLE_NAME, 'counted', true); "
        "END IF; RETURN NULL; END $$"
    )
    for table in _COUNTED:
        op.execute(
            f"CREATE TRIGGER count_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION count_change()"
        )


def downgrade() -> None:
    for table in _COUNTED:
        if _is_sqlite():
            for event in ("insert", "update", "delete"):
                op.execute(f"DROP TRIGGER count_{event}_{table}")
        else:
            op.execute(f"DROP TRIGGER count_change ON {table}")
    if not _is_sqlite():
        op.execute("DROP FUNCTION count_change()")
    op.drop_table("changes")


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"
