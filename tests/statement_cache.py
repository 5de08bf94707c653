"""Dialects whose engines share one cache of compiled statements for the whole process.

SQLAlchemy compiles a statement once for an engine, and nearly every test opens a database of its own: up to a third of
the processor time of tests of the ledger went into compiling the same statements. The cache's keys hold the dialect,
so that those of one kind and server version are equal here.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

_MOST_STATEMENTS = 1500
_COMPILED: LRUCache[Any, Any] = LRUCache(_MOST_STATEMENTS)


class _SharedStatements:
    """Makes dialects of one kind and server version equal, and gives their engines the shared cache."""

    supports_statement_cache = True
    server_version_info: tuple[Any, ...] | None = None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.server_version_info == getattr(other, "server_version_info", None)

    def __hash__(self) -> int:
        return hash(type(self))

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        engine.update_execution_options(compiled_cache=_COMPILED)


class SharedSqlite(_SharedStatements, SQLiteDialect_pysqlite):
    supports_statement_cache = True  # SQLAlchemy asks each class for itself


class SharedPostgres(_SharedStatements, PGDialect_psycopg):
    supports_statement_cache = True


def share() -> None:
    """Make every engine that is created after this call in this process use the shared cache."""
    registry.register("sqlite.pysqlite", __name__, SharedSqlite.__name__)
    registry.register("postgresql.psycopg", __name__, SharedPostgres.__name__)
