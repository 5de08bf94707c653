"""Puts a recorded database onto SQLite, as its revision left it, or onto PostgreSQL; reads every row of either."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from alembic.migration import MigrationContext
from alembic.operations import Operations
from psycopg import sql
from sqlalchemy import Connection, make_url, text
from tests.upgrades.recordings import VERSION_TABLE, Recording, Table, read_sqlite

from costguard.db import migrate
from costguard.db.before_baseline import LAST_BEFORE
from costguard.db.change_triggers import count_changes
from costguard.db.transaction import Database


def place(recording: Recording, url: str) -> None:
    """Places a recording in an empty database. On SQLite by the recorded SQL; PostgreSQL's tables come from the
    migrations.

    PostgreSQL's tables of a revision that no migration makes any more have the recorded names, and texts in all
    columns.
    """
    if url.startswith("sqlite"):
        _place_sqlite(recording, _file(url))
        return
    if recording.revision >= LAST_BEFORE:
        upgrade_to(url, recording.revision)
    else:
        _create_texts(recording, url)
    _fill_postgres(recording, url)


def upgrade_to(url: str, revision: str, folder: Path = migrate.MIGRATIONS) -> None:
    with closing(Database.open(url, migrating=True)) as database, database.write() as connection:
        migrate.upgrade_within(connection, revision, folder)


def read(url: str) -> dict[str, Table]:
    """All tables but Alembic's own."""
    if url.startswith("sqlite"):
        return read_sqlite(_file(url), made_by="").tables
    with _postgres(url) as connection:
        return {name: _read_postgres(connection, name) for name in _columns(connection) if name != VERSION_TABLE}


def state(url: str) -> object:
    """Tables, indexes, triggers and rows: equal before and after a migration that failed."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(_file(url))) as connection:
            return list(connection.iterdump())
    with _postgres(url) as connection:
        indexes = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
        ).fetchall()
        triggers = connection.execute("SELECT tgrelid::regclass::text, tgname FROM pg_trigger ORDER BY 1, 2").fetchall()
        columns = _columns(connection)
        return columns, indexes, triggers, {name: _read_postgres(connection, name).rows for name in columns}


def comparable(value: Any) -> Any:
    """A value as both databases give it: JSON in one order, booleans as SQLite stores them, days as text."""
    if isinstance(value, bool):
        return int(value)
    if value == "null":  # JSON's, as SQLite stores it
        return None
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return comparable(json.loads(value))
        except ValueError:
            return value
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _place_sqlite(recording: Recording, path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # a file that others can read is refused
    tables_first = sorted(recording.schema, key=lambda text: not text.startswith("CREATE TABLE"))
    triggers = [text for text in tables_first if text.startswith("CREATE TRIGGER")]
    with closing(sqlite3.connect(path)) as connection, connection:
        for text in tables_first:
            if text not in triggers:
                connection.execute(text)
        for name, table in recording.tables.items():
            names, marks = ", ".join(f'"{column}"' for column in table.columns), ", ".join("?" * len(table.columns))
            connection.executemany(f'INSERT INTO "{name}" ({names}) VALUES ({marks})', table.rows)
        for text in triggers:  # not before: they count what is inserted
            connection.execute(text)
        connection.execute(f"INSERT INTO {VERSION_TABLE} VALUES (?)", [recording.revision])


def _create_texts(recording: Recording, url: str) -> None:
    tables = {**recording.tables, VERSION_TABLE: Table(["version_num"], [])}
    with _postgres(url) as connection:
        for name, table in tables.items():
            columns = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(column)) for column in table.columns)
            connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), columns))


def _fill_postgres(recording: Recording, url: str) -> None:
    with _postgres(url) as connection, connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")  # neither order nor triggers matter
        columns = _columns(connection)
        connection.execute(f"DELETE FROM {VERSION_TABLE}")
        connection.execute(f"INSERT INTO {VERSION_TABLE} VALUES (%s)", [recording.revision])
        for name, table in recording.tables.items():
            assert set(columns[name]) == set(table.columns), f"{name} of {recording.revision} is not as it was recorded"
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
            converters = [_CONVERTERS.get(columns[name][column], _as_it_is) for column in table.columns]
            statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(name),
                sql.SQL(", ").join(map(sql.Identifier, table.columns)),
                sql.SQL(", ").join([sql.Placeholder()] * len(table.columns)),
            )
            connection.cursor().executemany(
                statement,
                [[convert(value) for convert, value in zip(converters, row, strict=True)] for row in table.rows],
            )
            if columns[name].get("id") in ("int4", "int8"):
                connection.execute(
                    "SELECT setval(s, (SELECT coalesce(max(x.id), 0) + 1 FROM "
                    + sql.Identifier(name).as_string(connection)
                    + " x), false) FROM pg_get_serial_sequence(%s, 'id') s WHERE s IS NOT NULL",
                    [name],
                )


def _as_it_is(value: Any) -> Any:
    return value


def _boolean(value: Any) -> Any:
    return None if value is None else bool(value)


def _text(value: Any) -> Any:
    return None if value is None else str(value)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {"bool": _boolean, "text": _text}


def _columns(connection: psycopg.Connection) -> dict[str, dict[str, str]]:
    """Returns, by table, the type of each column."""
    rows = connection.execute(
        "SELECT table_name, column_name, udt_name FROM information_schema.columns WHERE table_schema = 'public' "
        "ORDER BY table_name, ordinal_position"
    )
    columns: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        columns.setdefault(table, {})[column] = kind
    return columns


def _read_postgres(connection: psycopg.Connection, name: str) -> Table:
    rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name)))
    return Table([column.name for column in rows.description or ()], sorted([list(row) for row in rows], key=repr))


def _postgres(url: str) -> psycopg.Connection:
    return psycopg.connect(
        make_url(url).set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
    )


def _file(url: str) -> Path:
    return Path(make_url(url).database or "")


# What an agent's reports change, as the baseline has it: no change of an attempt that pages are made again for.
_REPORTED = (
    "heard_at",
    "step",
    "step_at",
    "machine",
    "output",
    "phase",
    "transfers",
    "accepted_through",
    "metric",
    "progress",
)


_PRESENT = "project, preset, status, provisioning_model, owner, gpu_type, gpu_count, termination_at, rate_rank, "
_PRESENT += "rate_nanos, running_since, name, id"


def put_back(connection: Connection) -> None:
    """Makes the tables of a database as the last revision before the baseline has them; what later ones added goes."""
    for index in ("ix_instances_present", "ix_instances_keeper_product"):
        connection.execute(text(f"DROP INDEX {index}"))
    for column in ("keeper", "keeper_kind", "keeper_product"):
        connection.execute(text(f"ALTER TABLE instances DROP COLUMN {column}"))
    connection.execute(text(f"CREATE INDEX ix_instances_present ON instances ({_PRESENT}) WHERE gone_at IS NULL"))
    with Operations(MigrationContext.configure(connection)).batch_alter_table("running_totals") as totals:
        totals.drop_constraint("pk_running_totals", type_="primary")
        for column in ("keeper_kind", "keeper_product"):
            totals.drop_column(column)
        keys = ["project", "preset", "owner", "job", "provisioning_model", "day"]
        totals.create_primary_key("pk_running_totals", keys)
    connection.execute(text("ALTER TABLE utilisation DROP COLUMN counted_to"))
    connection.execute(text("DROP TABLE gpu_use"))
    of_jobs = ("gang_rounds", "placement_policies", "schedule_runs", "schedules", "data_stages", "stage_uses")
    of_daily_life = ("limit_waits", "job_profiles", "job_places", "job_origins", "job_labels", "sweep_stops")
    of_sums = ("daily_presets",)
    for table in ("watched_projects", "searched_places", *of_jobs, *of_daily_life, *of_sums):
        connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("DELETE FROM changes WHERE table_name = :table"), {"table": table})
    connection.execute(text("DROP TABLE bill_commitment_hours"))
    connection.execute(text("ALTER TABLE bill_partitions DROP COLUMN has_hours"))
    connection.execute(text("ALTER TABLE projects DROP COLUMN wanted_at"))
    for column in ("name", "end_from_entry"):
        connection.execute(text(f"ALTER TABLE operations DROP COLUMN {column}"))
    for table in ("project_leases", "replicas", "feed_requests", "feed_projects", "feed_wire", "hourly_counts"):
        connection.execute(text(f"DROP TABLE {table}"))
    counted_since = ("burn_rates", "claims", "keeps", "prices", "stops", "unknown_vms", "installation")
    for table in counted_since:
        connection.execute(text("DELETE FROM changes WHERE table_name = :table"), {"table": table})
    for table in ("attempts", *counted_since):
        if connection.dialect.name == "sqlite":
            for event in ("insert", "update", "delete"):
                connection.execute(text(f"DROP TRIGGER count_{event}_{table}"))
        else:
            connection.execute(text(f"DROP TRIGGER count_change ON {table}"))
    for column in ("gang_round", "early_why", "early_reason"):
        connection.execute(text(f"ALTER TABLE jobs DROP COLUMN {column}"))
    for column in ("halving", "halving_ended_at", "halving_ended_by"):
        connection.execute(text(f"ALTER TABLE sweeps DROP COLUMN {column}"))
    for column in ("kept_at", "kept_by"):
        connection.execute(text(f"ALTER TABLE sweep_members DROP COLUMN {column}"))
    of_gangs = ("node", "formation", "round", "ready_round", "internal_address", "ended_round")
    of_groups = ("vm_group", "resize_request", "claimed_by")
    for column in ("address", "notice_s", *of_gangs, *of_groups):
        connection.execute(text(f"ALTER TABLE attempts DROP COLUMN {column}"))
    count_changes(connection, "attempts", without=_REPORTED)
    connection.execute(text("UPDATE alembic_version SET version_num = :old"), {"old": LAST_BEFORE})
