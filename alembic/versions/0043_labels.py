"""Labels that changed keep what they were, so that spend by label splits at the moment of the change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "label_changes",
        sa.Column("instance_id", _ID, autoincrement=False, nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("old_value", sa.String()),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_label_changes_instance_id_instances")),
        sa.PrimaryKeyConstraint("instance_id", "label", "changed_at", name=op.f("pk_label_changes")),
    )
    op.create_index("ix_label_changes_label", "label_changes", ["label", "changed_at"])


def downgrade() -> None:
    op.drop_table("label_changes")
