"""The two databases that Costguard runs on, made by the migrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import make_url
from tests.postgres import shared_server

from costguard.db.limits import MIGRATING
from costguard.db.migrate import upgrade
from costguard.db.transaction import Database


@contextmanager
def fresh(folder: Path, name: str) -> Iterator[dict[str, str]]:
    """The addresses of a new database of either kind, by what people call it. The server ends with the block."""
    with shared_server(folder) as server:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        addresses = urls(server, folder, name)
        for url in addresses.values():
            upgrade(url)
        yield addresses


@contextmanager
def both(folder: Path, name: str) -> Iterator[list[tuple[str, Database]]]:
    """Each with what people call it, and time enough to fill it. They end with the block, and so does the server."""
    with fresh(folder, name) as addresses:
        sqlite, postgres = (Database.open(url, limits=MIGRATING) for url in addresses.values())
        with closing(sqlite), closing(postgres):
            yield [("SQLite", sqlite), ("PostgreSQL", postgres)]


def urls(server: str, folder: Path, name: str) -> dict[str, str]:
    return {
        "SQLite": f"sqlite:///{folder / name}.db",
        "PostgreSQL": make_url(server).set(database=name).render_as_string(hide_password=False),
    }
