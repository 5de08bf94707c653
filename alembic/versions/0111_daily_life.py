"""What the team's daily life needs of the tables: each piece of it adds its own function here."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import sqlalchemy as sa
from alembic import op

from costguard.db.change_triggers import count_changes

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _lineages()


def _lineages() -> None:
    """Where jobs store, from what they start and their labels; the first two also of jobs that are there."""
    op.create_table(
        "job_places",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("place_key", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_places_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "place_key", name=op.f("pk_job_places")),
    )
    op.create_index("ix_job_places_key", "job_places", ["place_key"])
    op.create_table(
        "job_origins",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("address_key", sa.String(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("uses", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_origins_job_id_jobs")),
        sa.ForeignKeyConstraint(["parent_id"], ["jobs.id"], name=op.f("fk_job_origins_parent_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "address_key", name=op.f("pk_job_origins")),
    )
    op.create_index("ix_job_origins_parent", "job_origins", ["parent_id"])
    connection = op.get_bind()
    op.create_table(
        "job_labels",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_labels_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "label", name=op.f("pk_job_labels")),
    )
    op.create_index("ix_job_labels_value", "job_labels", ["label", "value"])
    count_changes(connection, "job_labels")
    count_changes(connection, "job_places")
    count_changes(connection, "job_origins")
    first = {row.job_id: row.resume_from for row in connection.execute(sa.text(_FIRST_VMS))}
    newest: dict[str, str] = {}
    for row in connection.execute(sa.text("SELECT id, spec FROM jobs ORDER BY created_at, id")).all():
        spec = json.loads(row.spec) if isinstance(row.spec, str) else row.spec
        own, origins = _own_places(spec), _origins_of(spec, first.get(row.id, ""))
        rows = []
        for address, uses in origins.items():
            parent = next((newest[folder] for folder in _folders(address) if folder in newest), None)
            if parent is not None or uses == "checkpoint":
                rows.append((row.id, _key(address), address, uses, parent))
        _insert(connection, "job_origins", ("job_id", "address_key", "address", "uses", "parent_id"), rows)
        _insert(connection, "job_places", ("job_id", "place_key"), [(row.id, _key(place)) for place in own])
        newest |= dict.fromkeys(own, row.id)


_FIRST_VMS = "SELECT job_id, resume_from FROM attempts WHERE number = 1 AND resume_from <> ''"
_ADDRESS = re.compile(r"(?:gs|s3|file)://[^\s'\"`,;|<>(){}\\]+")


def _key(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _folders(address: str) -> list[str]:
    scheme, sign, path = address.rstrip("/").partition("://")
    parts = path.split("/")
    return [f"{scheme}{sign}{'/'.join(parts[:count])}" for count in range(len(parts), 1, -1)] if sign else []


def _own_places(spec: dict[str, Any]) -> list[str]:
    places = [(spec.get("checkpoint") or {}).get("location", "")]
    places += [one["destination"] for one in spec.get("outputs") or ()]
    return list(dict.fromkeys(place.rstrip("/") for place in places if _folders(place)))


def _origins_of(spec: dict[str, Any], resume_from: str) -> dict[str, str]:
    own, origins = set(_own_places(spec)), {}
    if _folders(resume_from):
        origins[resume_from.rstrip("/")] = "checkpoint"
    named = [(one["source"], "input") for one in spec.get("inputs") or ()]
    texts = [*(spec.get("command") or ()), spec.get("setup") or "", *(spec.get("environment") or {}).values()]
    named += [(match.rstrip(".:]"), "command") for text in texts for match in _ADDRESS.findall(text)]
    for address, uses in named:
        folders = _folders(address)
        if folders and own.isdisjoint(folders):
            origins.setdefault(folders[0], uses)
    return dict(list(origins.items())[:100])


def _insert(connection: sa.Connection, table: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    if rows:
        made = sa.table(table, *(sa.column(name) for name in columns))
        connection.execute(sa.insert(made), [dict(zip(columns, row, strict=True)) for row in rows])
