"""The bill keeps what usage would cost without a commitment, so that a contract's discount is known apart from it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("bill_usage", sa.Column("default_nanos", sa.BigInteger()))


def downgrade() -> None:
    with op.batch_alter_table("bill_usage") as table:
        table.drop_column("default_nanos")
