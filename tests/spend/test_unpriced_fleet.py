"""Pages and lists over many resources of Vertex AI, a fifth of which have no price."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi.testclient import TestClient
from sqlalchemy import Engine, event, update
from tests.benchmarks import vertex_fleet
from tests.benchmarks.pages import app_over
from tests.benchmarks.vertex import ADDRESSES
from tests.within import keep_rates

from costguard.db.remembered import forget
from costguard.db.tables import changes
from costguard.db.transaction import Database

_FEW, _MANY = 200, 6_000  # of many more are unpriced than one statement takes of ids


@contextmanager
def _counted() -> Iterator[list[str]]:
    """Collects the statements that any database runs within the block."""
    statements: list[str] = []

    def note(*given: object) -> None:
        statements.append(str(given[2]))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def _statements(database: Database) -> dict[tuple[str, bool], int]:
    """Counts the statements of each address: of a request that finds all remembered, and of one that finds nothing."""
    app, cookies = app_over(database, rules=vertex_fleet.RULES)
    client = TestClient(app, cookies=cookies)
    counts = {}
    for address in ADDRESSES:
        for has_changed in (True, False):
            if has_changed:
                forget()
                with database.write() as connection:
                    connection.execute(update(changes).values(number=changes.c.number + 1))
            with _counted() as statements:
                answer = client.get(address)
            assert answer.status_code == 200, f"{address}: {answer.text[:500]}"
            counts[address, has_changed] = len(statements)
    return counts


def test_pages_take_as_many_statements_over_many_resources(database: Database) -> None:
    """What has no price is read in groups, and never in as many statements as there is of it."""
    vertex_fleet.seed_prices(database)
    vertex_fleet.run(database, range(_FEW))
    with database.write() as connection:
        keep_rates(connection, vertex_fleet.NOW)
    few = _statements(database)
    vertex_fleet.run(database, range(_FEW, _MANY))
    with database.write() as connection:
        keep_rates(connection, vertex_fleet.NOW)
    assert _statements(database) == few
