"""The whole ledger as values that two databases can be compared by."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, select

from costguard.db.tables import charges, daily_spend, events, instances, lifetimes, operations, storage_spans
from costguard.db.transaction import Database

# Which span a charge belongs to follows from ids, and these depend on what was tried before.
_UNLIKE = {"id", "instance_id", "span_id", "recorded_at", "price_id"}


def ledger_rows(database: Database) -> dict[str, list[str]]:
    """Every row of every table of the ledger, without ids and the moments of recording."""
    tables = (instances, lifetimes, storage_spans, charges, daily_spend, operations, events)
    return {table.name: _rows(database, table) for table in tables}


def _rows(database: Database, table: Table) -> list[str]:
    def shown(row: Any) -> str:
        return repr({name: _ordered(value) for name, value in row._mapping.items() if name not in _UNLIKE})

    with database.read() as connection:
        return sorted(shown(row) for row in connection.execute(select(table)))


def _ordered(value: Any) -> Any:
    """PostgreSQL keeps JSON in an order of its own."""
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def rows_of_project(database: Database, project: str) -> dict[str, list[str]]:
    """The rows of one project, without ids, its name, and the moments at which something was recorded."""
    unlike = {
        "id",
        "instance_id",
        "project",
        "first_seen_at",
        "recorded_at",
        "charged_to",
        "fingerprint",
        "target_link",
    }
    tables = {table.name: table for table in (instances, lifetimes, storage_spans, operations)}
    ran = {row.instance_id for row in _all(database, lifetimes)}  # the others never were
    return {
        name: sorted(
            repr({key: value for key, value in row._mapping.items() if key not in unlike}).replace(project, "P")
            for row in _all(database, table)
            if row.project == project and (name != "instances" or row.id in ran)
        )
        for name, table in tables.items()
    }


def _all(database: Database, table: Table) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(select(table)))
