"""Rates are stored next to VMs: the fleet is the same as if it were computed at that moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product

import pytest
from sqlalchemy import Connection, delete, insert, update
from tests.api import rows
from tests.api.rows import EARLIER, NOW
from tests.within import keep_rates

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger import accrual as accruing
from costguard.ledger.accrual import accrual_at
from costguard.ledger.fleet_rows import Filters
from costguard.ledger.gaps import gaps
from costguard.ledger.running import burn_rates
from costguard.model.budget import Period, Scope
from costguard.model.money import ZERO, Money
from costguard.spend import fleet
from costguard.spend.budgets import outlooks
from costguard.spend.fleet import FleetPage, Sort
from costguard.spend.spend import live, spend

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
MIDNIGHT = NOW.replace(hour=0)
FILTERS = (Filters(), Filters(presets=("t4",), spot=False), Filters(name_holds="b"), Filters(owners=("nobody",)))


def some_fleet(connection: Connection) -> None:
    """Running, Spot, stopped, without a price, with a disk that is not known, and gone."""
    rows.prices(connection)
    for name, hours, given in (
        ("ab", 30, {}),
        ("aa", 1, {}),
        ("spot", 3, {"provisioning_model": "spot"}),
        ("bare", 5, {"gpu_type": None, "gpu_count": 0}),
        ("h100", 2, rows.H100),
    ):
        vm = rows.instance(connection, name, **given)
        started_at = NOW - hours * HOUR
        charged_to = MIDNIGHT if started_at < MIDNIGHT else None
        rows.lifetime(connection, vm, started_at, charged_to=charged_to, **given)
        rows.storage(
            connection, vm, started_at, charged_to=charged_to, resource=None if name == "spot" else "disk:pd-standard"
        )
    resting = rows.instance(connection, "resting", status="stopped")
    rows.storage(connection, resting, MIDNIGHT - 30 * HOUR)  # the last pass was before the last midnight
    rows.instance(connection, "gone", gone_at=NOW - HOUR)


def pages(connection: Connection, now: datetime, filters: Filters, sort: Sort) -> list[FleetPage]:
    """All of them, two VMs each."""
    pages_read = [
        fleet.fleet_page(connection, accrual_at(connection, now), {}, filters, sort=sort, with_gone=True, size=2)
    ]
    while (after := pages_read[-1].next) is not None:
        accrual = accrual_at(connection, now)
        pages_read.append(
            fleet.fleet_page(connection, accrual, {}, filters, sort=sort, with_gone=True, after=after, size=2)
        )
    return pages_read


def test_the_database_ranks_as_the_policy_does(database: Database) -> None:
    """The pages, totals and groups are the same by every filter and order, whether rates are stored or computed."""
    with database.write() as connection:
        some_fleet(connection)
        combinations = list(product(FILTERS, Sort))
        assert not burn_rates.are_current(connection, accrual_at(connection, NOW))
        worked_out = [pages(connection, NOW, filters, sort) for filters, sort in combinations]
        assert keep_rates(connection, NOW) == 6
        assert burn_rates.are_current(connection, accrual_at(connection, NOW))
        assert [pages(connection, NOW, filters, sort) for filters, sort in combinations] == worked_out
        assert [row.instance.name for page in worked_out[0] for row in page.rows][:2] == ["h100", "spot"]
        assert worked_out[0][0].totals.unpriced == 2


def test_budgets_burn_alike_whether_rates_are_kept_or_worked_out(sqlite_database: Database) -> None:
    """The rate and the forecast are one, with and without a limit of Google's, for everything and for parts of it."""
    scopes = (Scope(), Scope(preset="t4"), Scope(owner="ada@lab.example"), Scope(project="lab"), Scope(job="j1"))
    scoped_periods = [(scope, Period.MONTH) for scope in scopes]
    with sqlite_database.write() as connection:
        some_fleet(connection)
        limited = rows.instance(connection, "limited", job="j1", termination_at=NOW + 2 * HOUR)
        rows.lifetime(connection, limited, NOW - HOUR, job="j1")
        worked_out = outlooks(connection, accrual_at(connection, NOW), scoped_periods)
        keep_rates(connection, NOW)
        kept = outlooks(connection, accrual_at(connection, NOW), scoped_periods)
    assert kept == worked_out
    assert all(outlook.rate > ZERO for outlook in kept)


def test_rates_are_written_when_they_change(sqlite_database: Database) -> None:
    """Keeping them again writes nothing; one VM's change writes one; a VM without a rate has all looked at."""
    with sqlite_database.write() as connection:
        some_fleet(connection)
        keep_rates(connection, NOW)
        assert keep_rates(connection, NOW + HOUR) == 0
        vm = rows.instance(connection, "new")
        assert not burn_rates.are_current(connection, accrual_at(connection, NOW))
        assert keep_rates(connection, NOW) == 1
        rows.lifetime(connection, vm, NOW)
        assert burn_rates.keep(connection, NOW, [vm]) == 1
        connection.execute(update(tables.lifetimes).values(ended_at=NOW))
        assert burn_rates.keep(connection, NOW, [vm]) == 1


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_price_counts_from_the_moment_it_comes_into_force(database: Database) -> None:
    """Stored rates hold until then; after it the page computes them, and so does the next pass, for all to read."""
    later = NOW + HOUR
    with database.write() as connection:
        some_fleet(connection)
        keep_rates(connection, NOW)
        before = pages(connection, NOW, Filters(), Sort.RATE)[0].totals.rate
        dearer = {"resource": "gpu:nvidia-tesla-t4", "region": "us-central1", "provisioning_model": "standard"}
        row = {**dearer, "unit": "h", "rate_nanos": 10**9, "in_force_from": later, "source": "test", "recorded_at": NOW}
        connection.execute(insert(tables.prices), row)
    with database.write() as connection:  # prices are read once in each transaction
        keep_rates(connection, NOW)
        for moment, is_current in ((NOW, True), (later - timedelta(microseconds=1), True), (later, False)):
            accrual = accrual_at(connection, moment)
            assert burn_rates.are_current(connection, accrual) is is_current
        after = pages(connection, later, Filters(), Sort.RATE)[0].totals.rate
        assert after.nanos - before.nanos == 2 * (10**9 - 350_000_000)
        assert keep_rates(connection, later) == 2
        assert pages(connection, later, Filters(), Sort.RATE)[0].totals.rate == after
        connection.execute(delete(tables.prices).where(tables.prices.c.in_force_from > EARLIER))
    with database.read() as connection:
        assert not burn_rates.are_current(connection, accrual_at(connection, later))


def test_what_is_alike_adds_up_to_what_each_has_run_up(database: Database) -> None:
    """The sums are equal in groups or one by one, for anyone who it is asked; and resources without a price are
    named.
    """
    with database.write() as connection:
        some_fleet(connection)
        accrual = accrual_at(connection, NOW)
        ids = [row[0] for row in connection.execute(tables.instances.select().with_only_columns(tables.instances.c.id))]
        bills = [accrual.bill(span.span, span.charged_to) for span in accruing.accruing_spans(connection, ids)]
        since = (MIDNIGHT - 40 * HOUR).date()
        for scope in (Scope(), Scope(project="lab"), Scope(owner="ada@lab.example", preset="t4")):
            answer = spend(connection, accrual, since, NOW.date(), [], scope)
            assert answer.total.total.nanos == sum(bill.amount.nanos for bill in bills)
            listed = gaps(connection, accrual, since, NOW.date(), scope)
            assert {(span.kind, span.name) for span in listed} == {("lifetime", "h100"), ("storage", "spot")}
            assert answer.unpriced == 2
        assert spend(connection, accrual, since, NOW.date(), [], Scope(project="yard")).total.total.nanos == 0
        assert live(connection, accrual, NOW.date() + timedelta(days=1), NOW.date(), Scope(), ()) == []


def test_rates_follow_the_month(database: Database) -> None:
    """The stored rate holds until the Pacific month ends; from then on a disk costs another share of its month."""
    december = datetime(2026, 12, 1, 8, tzinfo=UTC)
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "vm", status="stopped")
        rows.storage(connection, vm, NOW - HOUR)
        keep_rates(connection, NOW)
        assert burn_rates.are_current(connection, accrual_at(connection, december - SECOND))
        assert not burn_rates.are_current(connection, accrual_at(connection, december))
        for now, hours in ((NOW, 721), (december, 744)):
            assert _rate_of_all(connection, now) == Money(round(Fraction(70 * 41_200_000, hours)))
        keep_rates(connection, december)
        assert burn_rates.are_current(connection, accrual_at(connection, december))
        assert _rate_of_all(connection, december) == Money(round(Fraction(70 * 41_200_000, 744)))


def _rate_of_all(connection: Connection, now: datetime) -> Money:
    accrual = accrual_at(connection, now)
    return Money(sum(rate.rate.nanos for rate in burn_rates.burning(connection, accrual)))
