"""Databases from before the baseline migration: the last revision of then is taken over, every other is refused."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import Connection, inspect, text

from costguard.errors import StoreError

BASELINE = "0100"
LAST_BEFORE = "0047"  # its tables are the baseline's
_REMOVED = f"alembic/versions/{LAST_BEFORE}_said_by_google.py"
_COUNTED = {  # which changes of which tables
    "sqlite": "SELECT tbl_name, substr(name, 7, 6) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'count_%'",
    "postgresql": "SELECT relname, event FROM pg_class JOIN pg_trigger ON tgrelid = pg_class.oid "
    "JOIN (VALUES ('insert', 4), ('delete', 8), ('update', 16)) AS events (event, bit) ON tgtype & bit <> 0 "
    "WHERE tgname = 'count_change' AND relnamespace = current_schema()::regnamespace",
}


def of_same_tables(revision: str) -> str:
    """The revision of today whose tables a database of this revision has."""
    return BASELINE if revision == LAST_BEFORE else revision


def refuse_before(revision: str, name: str) -> None:
    """Raises StoreError for a revision that came before the baseline; what calls it knows `LAST_BEFORE`."""
    if revision.isdecimal() and int(revision) < int(BASELINE):
        raise StoreError(
            f"{name} was made by an earlier version of Costguard (revision {revision}), which this one cannot upgrade. "
            "Nothing was changed.",
            f"Keep it, and bring it to revision {LAST_BEFORE} with the last version that can: in a clone of the "
            f"repository, `git checkout $(git rev-list -1 HEAD -- {_REMOVED})^`, then `costguard db upgrade`, or for a "
            "backup `costguard db restore`. This version takes it over from there. Or begin with a new database.",
        )


def check_tables(connection: Connection, baseline: Connection, name: str) -> None:
    """Raises StoreError where a table is not as in the database at the baseline; others' tables do no harm."""
    there, wanted = _tables(connection), _tables(baseline)
    if differing := sorted(table for table, parts in wanted.items() if there.get(table) != parts):
        raise StoreError(
            f"{name} says that it is at revision {LAST_BEFORE}, and some tables are not as that revision makes them: "
            f"{', '.join(differing)}. Nothing was changed.",
            "Put back the last backup, or name a new database in the database URL.",
        )


def take_over(connection: Connection) -> None:
    """Gives the database, whose tables were checked, the number of the baseline; nothing else changes."""
    connection.execute(
        text("UPDATE alembic_version SET version_num = :new WHERE version_num = :old"),
        {"new": BASELINE, "old": LAST_BEFORE},
    )


def _tables(connection: Connection) -> dict[str, set[tuple[object, ...]]]:
    """Returns, by table, what both databases share: columns, keys, indexes, and which of its changes are counted."""
    inspector = inspect(connection)
    tables: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for (_, table), columns in inspector.get_multi_columns().items():
        tables[table].update(("column", column["name"], column["nullable"]) for column in columns)
    for (_, table), key in inspector.get_multi_pk_constraint().items():
        tables[table].add(("primary key", *key["constrained_columns"]))
    for (_, table), foreign in inspector.get_multi_foreign_keys().items():
        tables[table].update(
            ("foreign key", *one["constrained_columns"], one["referred_table"], *one["referred_columns"])
            for one in foreign
        )
    for (_, table), unique in inspector.get_multi_unique_constraints().items():
        tables[table].update(("unique", *one["column_names"]) for one in unique)
    for (_, table), indexes in inspector.get_multi_indexes().items():
        tables[table].update(
            ("index", index["name"], *index["column_names"])
            for index in indexes
            if "duplicates_constraint" not in index
        )
    for table, event in connection.execute(text(_COUNTED[connection.dialect.name])):
        tables[table].add(("counted", event))
    return dict(tables)
