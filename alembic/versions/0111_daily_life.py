"""What the team's daily life needs of the tables: each piece of it adds its own function here."""

from __future__ import annotations

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds nothing by itself."""
