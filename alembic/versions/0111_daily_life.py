"""What the team's daily life needs of the tables: each piece of it adds its own function here."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds what each piece needs."""
    add_limit_waits()


def add_limit_waits() -> None:
    """Adds the jobs that wait for a limit on what is in use at once."""
    op.create_table(
        "limit_waits",
        sa.Column("job_id", sa.String, sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("most", sa.Integer, nullable=False),
        sa.Column("least", sa.Integer, nullable=False),
        sa.Column("rate_nanos", sa.BigInteger),
        sa.Column("takes_s", sa.BigInteger),
    )
