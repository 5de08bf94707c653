"""Made-up migrations after the last one: what holds for them holds for those that will follow."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.upgrades.declared import Changes, Rows

from costguard.db import migrate

_HEAD = '''"""{subject}"""

import sqlalchemy as sa
from alembic import op

from costguard.db.change_triggers import count_changes

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
'''
_STEPS = {
    "9001": (
        "Runs have a rank.",
        """
    op.add_column("lifetimes", sa.Column("rank", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.create_index("ix_lifetimes_rank", "lifetimes", ["rank"])
""",
    ),
    "9002": (
        "The table events becomes notes.",
        """
    op.create_table(
        "notes",
        sa.Column("id", sa.Integer(), primary_key=True),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("key", "kind", "text")),
    )
    op.execute("INSERT INTO notes (id, key, kind, text) SELECT id, key, kind, text FROM events ORDER BY id")
    op.drop_table("events")
""",
    ),
    "9003": (
        "Attempts do without their image, and their changes are counted again.",
        """
    count_changes(op.get_bind(), "attempts", without={"image", "step"})  # what a trigger names cannot be dropped
    op.drop_column("attempts", "image")
    op.add_column("attempts", sa.Column("colour", sa.String()))
    count_changes(op.get_bind(), "attempts", without={"step"})
""",
    ),
    "9004": (
        "Owners are in capitals, and no rates are kept.",
        """
    op.execute("UPDATE instances SET owner = upper(owner)")
    op.execute("DELETE FROM burn_rates")
    with op.batch_alter_table("projects") as table:
        table.alter_column("project", type_=sa.Text(), existing_type=sa.String(), existing_nullable=False)
    op.rename_table("webhooks", "receivers")
""",
    ),
}
LATER = list(_STEPS)


def with_later_migrations(folder: Path, steps: Mapping[str, tuple[str, str]] = _STEPS) -> Path:
    """A copy of the migrations with made-up ones after them: by revision, a subject and the body of `upgrade`."""
    copied = folder / "migrations"
    shutil.copytree(migrate.MIGRATIONS, copied, ignore=shutil.ignore_patterns("__pycache__"))
    before = migrate.head()
    for revision, (subject, body) in steps.items():
        text = _HEAD.format(subject=subject, revision=revision, before=before) + body
        (copied / "versions" / f"{revision}_made_up.py").write_text(text)
        before = revision
    return copied


def _notes(rows: Rows) -> None:
    rows["notes"] = [{name: row[name] for name in ("id", "key", "kind", "text")} for row in rows.pop("events")]


def _no_image(rows: Rows) -> None:
    for row in rows["attempts"]:
        del row["image"]


def _capitals(rows: Rows) -> None:
    for row in rows["instances"]:
        row["owner"] = row["owner"].upper()
    rows.pop("burn_rates")
    rows["receivers"] = rows.pop("webhooks")


CHANGES: Changes = {"9002": _notes, "9003": _no_image, "9004": _capitals}
