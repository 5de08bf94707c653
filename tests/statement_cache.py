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


def _kind(dialect: Any) -> tuple[object, ...]:
    return type(dialect), getattr(dialect, "server_version_info", None)


class SharedSqlite(SQLiteDialect_pysqlite):
    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return _kind(self) == _kind(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        engine.update_execution_options(compiled_cache=_COMPILED)


class SharedPostgres(PGDialect_psycopg):
    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return _kind(self) == _kind(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        engine.update_execution_options(compiled_cache=_COMPILED)


def share() -> None:
    """Make every engine that is created after this call in this process use the shared cache."""
    registry.register("sqlite.pysqlite", __name__, SharedSqlite.__name__)
    registry.register("postgresql.psycopg", __name__, SharedPostgres.__name__)
