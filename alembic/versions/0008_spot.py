"""What Spot machines used and cost, by day and price, so that any range is compared with on-demand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_COUNTED = ("daily_spot", "daily_spot_totals")


def upgrade() -> None:
    _table("daily_spot", "project", "preset", "owner")
    _table("daily_spot_totals", "project", "preset")
    op.execute(
        "INSERT INTO daily_spot (day, project, preset, owner, price_id, used_millis, amount_nanos) "
        "SELECT charges.day, lifetimes.project, lifetimes.preset, lifetimes.owner, charges.price_id, "
        "SUM(charges.seconds * charges.quantity_millis), SUM(charges.amount_nanos) "
        "FROM charges JOIN prices ON prices.id = charges.price_id JOIN lifetimes ON lifetimes.id = charges.span_id "
        "WHERE charges.span = 'lifetime' AND prices.provisioning_model = 'spot' "
        "GROUP BY charges.day, lifetimes.project, lifetimes.preset, lifetimes.owner, charges.price_id"
    )
    op.execute(
        "INSERT INTO daily_spot_totals (day, project, preset, price_id, used_millis, amount_nanos) "
        "SELECT day, project, preset, price_id, SUM(used_millis), SUM(amount_nanos) "
        "FROM daily_spot GROUP BY day, project, preset, price_id"
    )
    op.create_index("ix_daily_spot_owner", "daily_spot", ["owner", "day"])
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
    op.execute("DELETE FROM changes WHERE table_name IN ('daily_spot', 'daily_spot_totals')")
    op.drop_table("daily_spot_totals")
    op.drop_index("ix_daily_spot_owner", "daily_spot")
    op.drop_table("daily_spot")


def _table(name: str, *whose: str) -> None:
    op.create_table(
        name,
        sa.Column("day", sa.Date(), nullable=False),
        *(sa.Column(column, sa.String(), nullable=False) for column in whose),
        sa.Column("price_id", _ID, autoincrement=False, nullable=False),
        sa.Column("used_millis", sa.BigInteger(), nullable=False),
        sa.Column("amount_nanos", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", *whose, "price_id", name=op.f(f"pk_{name}")),
    )
