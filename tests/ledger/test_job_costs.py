"""A job costs what its VMs were charged and what accrued since."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, text
from tests.api import rows
from tests.api.rows import NOW
from tests.within import charge_due

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger import job_costs, prices
from costguard.ledger.accrual import Accrual, select_lifetimes
from costguard.ledger.price_book import PriceBook
from costguard.model.money import Money, Priced

HOUR = timedelta(hours=1)


def test_a_job_is_charged_for_all_its_vms(database: Database) -> None:
    """Runs that ended and one that goes on, its disk, and nothing of another's; the same before and after charging."""
    with database.write() as connection:
        rows.prices(connection)
        for number, (started, ended) in enumerate([(30, 28), (3, None)]):
            vm = rows.instance(connection, f"cg-j1-{number}", job="j1")
            span = {"job": "j1", "ended_at": None if ended is None else NOW - ended * HOUR}
            rows.lifetime(connection, vm, NOW - started * HOUR, **span)
            rows.storage(connection, vm, NOW - started * HOUR, **span)
        other = rows.instance(connection, "other")
        rows.lifetime(connection, other, NOW - HOUR, job="j2", gpu_type="nvidia-unpriced", ended_at=NOW)
        rows.lifetime(connection, other, NOW - 9 * HOUR, ended_at=NOW - 2 * HOUR)
        whole = {"j1": Priced(Money.of("2.67")), "j3": Priced()}  # 5 hours at 0.18 + 0.35 + 0.004
        assert _costs(connection) == {**whole, "j2": Priced(Money.of("0.18"), whole=False)}
        charge_due(connection, NOW)
        assert _costs(connection) == {**whole, "j2": Priced(Money.of("0.18"), whole=False)}
        if database.dialect == "sqlite":  # PostgreSQL goes by figures of its own, which few rows leave to chance
            assert all("ix_lifetimes_job" in plan for plan in _plans(connection))


def _costs(connection: Connection) -> dict[str, Priced]:
    return job_costs.costs(connection, Accrual(PriceBook(prices.load(connection)), NOW), ["j1", "j2", "j3"])


def _plans(connection: Connection) -> list[str]:
    queries = (
        job_costs.spans_of(tables.lifetimes, ["j1"]),
        job_costs.unfinished(tables.lifetimes, select_lifetimes(), ["j1"]),
    )
    literal = {"literal_binds": True, "render_postcompile": True}
    compiled = [query.compile(connection, compile_kwargs=literal) for query in queries]
    return [str(connection.execute(text(f"EXPLAIN QUERY PLAN {query}")).all()) for query in compiled]
