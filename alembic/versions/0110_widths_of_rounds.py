"""How many VMs ran a round of a gang, so that the work of each counts at its own width."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0110"
down_revision = "0108"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gang_rounds", sa.Column("vms", sa.Integer(), nullable=True))
