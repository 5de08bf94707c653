"""Pages and lists over many resources of Vertex AI, a fifth of which have no price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta

from fastapi.testclient import TestClient
from sqlalchemy import Connection, Engine, delete, event, func, select, update
from tests.benchmarks import vertex_fleet
from tests.benchmarks.pages import app_over
from tests.benchmarks.vertex import ADDRESSES
from tests.benchmarks.year import NOW
from tests.within import keep_rates

from costguard.db.remembered import forget
from costguard.db.tables import changes, instances, lifetimes
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at, accruing_spans, figures_of
from costguard.ledger.charged import charging
from costguard.ledger.pricing import bill_span
from costguard.model.budget import Scope
from costguard.model.money import add_figures
from costguard.spend.spend import live

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
    """Resources without a price are read in groups: thirty times as many take no more statements."""
    vertex_fleet.seed_prices(database)
    vertex_fleet.run(database, range(_FEW))
    with database.write() as connection:
        keep_rates(connection, NOW)
    few = _statements(database)
    vertex_fleet.run(database, range(_FEW, _MANY))
    with database.write() as connection:
        keep_rates(connection, NOW)
    assert _statements(database) == few


def _seconds_and_nanos(connection: Connection) -> tuple[dict[date, list[int]], dict[date, list[int]]]:
    """Returns the figures of each day: as spend has them, and added up over the bill of each span by itself."""
    accrual = accrual_at(connection, NOW)
    first, last = (NOW - timedelta(days=10)).date(), NOW.date()
    shown: dict[date, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for day, _, amounts in live(connection, accrual, first, last, Scope(), ()):
        add_figures(shown[day], amounts)
    billed: dict[date, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for span in accruing_spans(connection, list(connection.scalars(select(instances.c.id)))):
        for day, figures in figures_of(bill_span(span.span, accrual.book, NOW, span.charged_to)):
            add_figures(billed[day], figures)
    return shown, billed


def test_equal_resources_cost_what_each_of_them_does(database: Database) -> None:
    """Resources priced in part, and charged up to the same midnight, cost together what each one's own bill says."""
    vertex_fleet.seed_prices(database)
    vertex_fleet.run(database, range(_FEW * 5))
    is_priced_in_part = instances.c.machine_type.contains("hyperdisk-extreme")
    with database.write() as connection:
        others = select(instances.c.id).where(~is_priced_in_part)
        connection.execute(delete(lifetimes).where(lifetimes.c.instance_id.in_(others)))
    charging.charge_due(database, NOW)
    for _ in ("worked out", "kept"):
        with database.read() as connection:
            shown, billed = _seconds_and_nanos(connection)
            assert connection.scalar(select(func.count()).select_from(lifetimes)) == _FEW * 5 // 20
        assert shown[NOW.date()][0] > 0
        assert shown == billed
        with database.write() as connection:
            keep_rates(connection, NOW)
