"""The schema that the migrations make, in each database's own words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import psycopg
from sqlalchemy import make_url, text
from tests.golden.databases import migrated
from tests.postgres import shared_server

from costguard.db.migrate import upgrade

_SQLITE = (
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY tbl_name, type, name"
)
_FOLDER = Path(__file__).parents[2] / ".cache"  # where the server's users find each other
_NAME = "golden_schema"
# Each gives a table's name, or '' for what belongs to none, and a line about it.
_POSTGRES = (
    """SELECT c.relname, '  ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
         || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
         || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
       FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
       LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
       WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname, a.attnum""",
    """SELECT conrelid::regclass::text, '  CONSTRAINT ' || conname || ' ' || pg_get_constraintdef(oid)
       FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND contype <> 'n'
       ORDER BY 1, 2""",
    """SELECT tablename, '  ' || indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY tablename, indexname""",
    """SELECT tgrelid::regclass::text, '  ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
       ORDER BY 1, tgname""",
    """SELECT '', pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY proname""",
)


def texts() -> Mapping[str, str]:
    return {"schema/sqlite.txt": _sqlite(), "schema/postgresql.txt": _postgresql()}


def _sqlite() -> str:
    with migrated() as database, database.read() as connection:
        return ";\n".join(connection.execute(text(_SQLITE)).scalars()) + ";\n"


def _postgresql() -> str:
    _FOLDER.mkdir(exist_ok=True)
    with shared_server(_FOLDER) as server, psycopg.connect(server, autocommit=True) as connection:
        name = f"{_NAME}_{os.getpid()}"
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            url = make_url(server).set(database=name).render_as_string(hide_password=False)
            upgrade(url)
            with psycopg.connect(url) as of_schema:
                return _described(of_schema)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _described(connection: psycopg.Connection) -> str:
    tables: dict[str, list[str]] = {}
    for query in _POSTGRES:
        for table, line in connection.execute(query).fetchall():
            tables.setdefault(table, []).append(line)
    return (
        "\n\n".join("\n".join([f"TABLE {table}" if table else "FUNCTIONS", *lines]) for table, lines in tables.items())
        + "\n"
    )
