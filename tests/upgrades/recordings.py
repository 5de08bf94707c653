"""Databases recorded from the code of each revision: `recorded/0047.json.xz` holds those that revision 0047 made.

0047 is the last revision before the baseline, and is taken over. 0012 stands for those before it, which are refused.
"""

from __future__ import annotations

import json
import lzma
import sqlite3
from base64 import b64decode, b64encode
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"
VERSION_TABLE = "alembic_version"


@dataclass(frozen=True, slots=True)
class Table:
    columns: list[str]
    rows: list[list[Any]]  # as SQLite stores them; bytes stay bytes

    def records(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded database: which test of that revision made it, its tables and indexes as SQL, and every row."""

    revision: str
    made_by: str
    schema: list[str]
    tables: dict[str, Table]

    @property
    def filled(self) -> set[str]:
        return {name for name, table in self.tables.items() if table.rows}

    @property
    def size(self) -> int:
        return sum(len(table.rows) for table in self.tables.values())


REFUSED = "0012"


def recorded_revisions() -> list[str]:
    """Returns the revisions that this version upgrades."""
    return sorted({path.name.partition(".")[0] for path in FOLDER.glob("*.json.xz")} - {REFUSED})


def load(revision: str) -> list[Recording]:
    """Loads the recordings of a revision, the one with the most tables filled first."""
    content = json.loads(lzma.decompress(_path(revision).read_bytes()))
    return [
        Recording(
            revision,
            database["made_by"],
            database["schema"],
            {
                name: Table(table["columns"], [[_value(value) for value in row] for row in table["rows"]])
                for name, table in database["tables"].items()
            },
        )
        for database in content
    ]


def save(revision: str, recordings: list[Recording]) -> Path:
    content = [
        {
            "made_by": recording.made_by,
            "schema": recording.schema,
            "tables": {
                name: {"columns": table.columns, "rows": [[_plain(value) for value in row] for row in table.rows]}
                for name, table in sorted(recording.tables.items())
            },
        }
        for recording in recordings
    ]
    FOLDER.mkdir(exist_ok=True)
    packed = lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME)
    _path(revision).write_bytes(packed)
    return _path(revision)


def read_sqlite(path: Path, made_by: str) -> Recording:
    """All that a SQLite file holds. Raises sqlite3.Error for a file that is no sound database of Costguard's."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        objects = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        revisions = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall()
        tables = {}
        for name in sorted(name for kind, name, _ in objects if kind == "table" and name != VERSION_TABLE):
            if name.startswith("sqlite_"):
                continue
            rows = connection.execute(f'SELECT * FROM "{name}"')  # a name of our own migrations
            tables[name] = Table([column[0] for column in rows.description], [list(row) for row in rows])
    schema = [sql for _, name, sql in objects if not name.startswith("sqlite_")]
    return Recording(str(revisions[0][0]), made_by, schema, tables)


def _path(revision: str) -> Path:
    return FOLDER / f"{revision}.json.xz"


def _plain(value: Any) -> Any:
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value


def _value(value: Any) -> Any:
    return b64decode(value["base64"]) if isinstance(value, dict) else value
