"""Daily sums by the values of the labels that the settings name, so that a year of them is read as fast as presets.

Nothing is rolled up here: a day that is not in `label_days` is read from charges until a pass has rolled it up.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

_COUNTED = ("daily_labels", "daily_label_values", "label_days")
_WHOSE = ("project", "preset", "owner", "job", "provisioning_model")


def upgrade() -> None:
    _table("daily_labels", ("label", "is_labelled", "value", "day", *_WHOSE))
    _table("daily_label_values", ("label", "day", "is_labelled", "value", "project"))
    op.create_table(
        "label_days",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("day", "label", name=op.f("pk_label_days")),
        sqlite_with_rowid=False,
    )
    for table in _COUNTED:
        op.execute(f"INSERT INTO changes (table_name, number) VALUES ('{table}', 0)")  # noqa: S608 - a constant
        if op.get_context().dialect.name == "sqlite":
            for event in ("insert", "update", "delete"):
                op.execute(  # no part of this text comes from outside
                    f"CREATE TRIGGER count_{event}_{table} AFTER {event.upper()} ON {table} BEGIN "  # noqa: S608
                    f"UPDATE changes SET number = number + 1 WHERE table_name = '{table}'; END"
                )
        else:
            op.execute(
                f"CREATE TRIGGER count_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION count_change()"
            )


def downgrade() -> None:
    for table in _COUNTED:
        op.execute(f"DELETE FROM changes WHERE table_name = '{table}'")  # noqa: S608 - a constant
        op.drop_table(table)


def _table(name: str, keys: tuple[str, ...]) -> None:
    types = {"is_labelled": sa.Boolean(), "day": sa.Date()}
    op.create_table(
        name,
        *(sa.Column(key, types.get(key, sa.String()), nullable=False) for key in keys),
        *(
            sa.Column(amount, sa.BigInteger(), nullable=False)
            for amount in ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
        ),
        sa.PrimaryKeyConstraint(*keys, name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )
