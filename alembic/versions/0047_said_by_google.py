"""What Google says of a VM's keeper, of zones with capacity, and of runs that it began again by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.add_column("instances", sa.Column("origin", json, nullable=False, server_default=sa.text("'{}'")))
    op.add_column("attempts", sa.Column("zones_available", json, nullable=False, server_default=sa.text("'[]'")))
    op.add_column("lifetimes", sa.Column("age_from", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("lifetimes", "age_from")
    op.drop_column("attempts", "zones_available")
    op.drop_column("instances", "origin")
