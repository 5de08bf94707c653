"""Projects that searches of Asset Inventory find, with how they answer, and the places that are searched."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from costguard.db.change_triggers import count_changes

revision = "0107"
down_revision = "0106"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "watched_projects",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("number", sa.String()),
        sa.Column("found_at", sa.BigInteger()),
        sa.Column("last_found_at", sa.BigInteger()),
        sa.Column("missed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("missing_since", sa.BigInteger()),
        sa.Column("gone_at", sa.BigInteger()),
        sa.Column("gone_because", sa.Text(), server_default="", nullable=False),
        sa.Column("refused_since", sa.BigInteger()),
        sa.Column("refusal_code", sa.String(), server_default="", nullable=False),
        sa.Column("refusal", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_watched_projects")),
    )
    op.create_table(
        "searched_places",
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("tried_at", sa.BigInteger(), nullable=False),
        sa.Column("searched_at", sa.BigInteger()),
        sa.Column("project_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed_since", sa.BigInteger()),
        sa.Column("failure_code", sa.String(), server_default="", nullable=False),
        sa.Column("failure", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("place", name=op.f("pk_searched_places")),
    )
    for table in ("watched_projects", "searched_places"):
        count_changes(op.get_bind(), table)
