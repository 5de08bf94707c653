"""Triggers that count the changes of a table in `changes`, for migrations: earlier ones rest on what this makes."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, inspect, text


def create_counter(connection: Connection) -> None:
    """PostgreSQL's function, made once; SQLite's triggers count by themselves.

    It counts once a transaction and table: ten thousand statements would each leave a version of the row behind.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(
            text(
                "CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "IF coalesce(current_setting('costguard.' || TG_TABLE_NAME, true), '') = '' THEN "
                "UPDATE changes SET number = number + 1 WHERE table_name = TG_TABLE_NAME; "
                "PERFORM set_config('costguard.' || TG_TABLE_NAME, 'counted', true); "
                "END IF; RETURN NULL; END $$"
            )
        )


def count_changes(connection: Connection, table: str, without: Collection[str] = ()) -> None:
    """Counts inserts, deletes and updates of the table; of updates only those of columns that are not in `without`.

    A migration calls it for a new table, and again after it has changed the columns of a table with `without`.
    """
    connection.execute(
        text("INSERT INTO changes (table_name, number) VALUES (:name, 0) ON CONFLICT DO NOTHING"), {"name": table}
    )
    of_columns = ""
    if without:
        columns = [str(column["name"]) for column in inspect(connection).get_columns(table)]
        of_columns = f" OF {', '.join(name for name in columns if name not in without)}"
    if connection.dialect.name == "sqlite":
        for event in ("insert", "update", "delete"):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS count_{event}_{table}")
            connection.exec_driver_sql(  # no part of this text comes from outside
                f"CREATE TRIGGER count_{event}_{table} AFTER "  # noqa: S608
                f"{event.upper()}{of_columns if event == 'update' else ''} ON {table} BEGIN "
                f"UPDATE changes SET number = number + 1 WHERE table_name = '{table}'; END"
            )
    else:
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS count_change ON {table}")
        connection.exec_driver_sql(
            f"CREATE TRIGGER count_change AFTER INSERT OR UPDATE{of_columns} OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION count_change()"
        )
