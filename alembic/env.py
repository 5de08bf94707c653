"""Runs migrations: inside the transaction that `costguard.db.migrate` opened, or for a developer's `alembic`.

A developer names the database: `alembic -x url=sqlite:///costguard.db revision --autogenerate -m "why"`.
"""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import JSON, Connection

from costguard.db.tables import metadata
from costguard.db.transaction import Database
from costguard.db.types import Timestamp


def render(kind: str, item: Any, autogen: Any) -> str | bool:
    """Migrations must not import types that later versions change; JSON's variant would be rendered bare."""
    if kind == "type" and isinstance(item, Timestamp):
        return "sa.BigInteger()"
    if kind == "type" and isinstance(item, JSON):
        autogen.imports.add("from sqlalchemy.dialects.postgresql import JSONB")
        return 'sa.JSON().with_variant(JSONB, "postgresql")'
    return False


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_item=render,
        render_as_batch=True,  # SQLite changes a column by rebuilding its table
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    database = Database.open(context.get_x_argument(as_dictionary=True)["url"], migrating=True)
    with database.write() as opened:
        run(opened)
    database.close()
