"""The table facts becomes events, and webhooks count the events that they accepted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_INDEXES = {
    "instance": ("gce_id", "occurred_at"),
    "kind": ("kind", "occurred_at"),
    "occurred_at": ("occurred_at", "id"),
}


def upgrade() -> None:
    _rename("facts", "events", "fact", "event")


def downgrade() -> None:
    _rename("events", "facts", "event", "fact")


def _rename(old: str, new: str, old_noun: str, new_noun: str) -> None:
    for name in _INDEXES:
        op.drop_index(f"ix_{old}_{name}", old)
    if op.get_bind().dialect.name == "postgresql":
        op.rename_table(old, new)
        for constraint in ("pk_{}", "uq_{}_key"):
            op.execute(f"ALTER TABLE {new} RENAME CONSTRAINT {constraint.format(old)} TO {constraint.format(new)}")
        op.execute(f"ALTER SEQUENCE {old}_id_seq RENAME TO {new}_id_seq")
    else:  # SQLite renames no constraint
        _copy(old, new)
    for name, columns in _INDEXES.items():
        op.create_index(f"ix_{new}_{name}", new, list(columns))
    op.execute(f"ALTER TABLE webhooks RENAME COLUMN {old_noun}_id TO {new_noun}_id")
    # A notification names the events that it is about.
    text = "CAST(data AS TEXT)"
    renamed = f"""replace({text}, '"{old}":', '"{new}":')"""
    if op.get_bind().dialect.name == "postgresql":
        renamed = f"CAST({renamed} AS JSON)"
    op.execute(f"UPDATE messages SET data = {renamed} WHERE {text} LIKE '%\"{old}\":%'")  # noqa: S608


def _copy(old: str, new: str) -> None:
    op.create_table(
        new,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        *(
            sa.Column(name, sa.String(), server_default="", nullable=False)
            for name in ("project", "gce_id", "name", "actor")
        ),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{new}")),
        sa.UniqueConstraint("key", name=op.f(f"uq_{new}_key")),
    )
    names = "id, key, kind, occurred_at, recorded_at, project, gce_id, name, actor, text, data"
    op.execute(f"INSERT INTO {new} ({names}) SELECT {names} FROM {old} ORDER BY id")  # noqa: S608
    op.drop_table(old)
