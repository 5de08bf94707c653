"""Events of prices, spending, budgets and the bill, recorded by the parts that watch them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from tests.api import rows
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.jobs.job_rows import job

from costguard.access.rules import Rules
from costguard.bill.comparing import drift_event
from costguard.bill.lines import BilledThing, BillLine, BillState, Reason
from costguard.bill.reading import read_table
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.rows.limits.budget_holds import BudgetHolds
from costguard.ledger.charged.charging import charge_due
from costguard.ledger.price_refresh import refresh
from costguard.model.billing.bill import BilledKind
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit
from costguard.spend.budgets import BudgetWatch

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_T4 = Price(
    PriceKey("gpu:nvidia-tesla-t4", "us-east1", ProvisioningModel.STANDARD), Unit.HOUR, Money.of("0.35").nanos,
    NOW - 30 * DAY, "catalog", "SKU-1",
)  # fmt: skip
_BUDGET = Budget("lab", Scope(project="lab"), Money.of(3), Period.DAY, at_limit=AtLimit.REFUSE)


def record(database: Database) -> None:
    _spending(database)
    _prices(database)
    _bill(database)


def _spending(database: Database) -> None:
    """Records GPUs in a project that had none, an unusual rate, a budget that is passed, and a GPU without a price."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab", first_seen_at=NOW - 60 * DAY)
        rows.project(connection, "new", first_seen_at=NOW - 60 * DAY)
        vm = rows.instance(connection, "steady")
        for week in range(1, 5):
            start = NOW - week * 7 * DAY - 3 * HOUR
            ended = {"ended_at": start + 6 * HOUR, "charged_to": start + 6 * HOUR}
            run = rows.lifetime(connection, vm, start, **ended)
            rows.charge(connection, "lifetime", run, start, start + 6 * HOUR, 6 * 10**9)
        for number in range(12):
            rows.lifetime(connection, rows.instance(connection, f"flood{number}"), NOW - 6 * HOUR)
        rows.lifetime(connection, rows.instance(connection, "first", project="new"), NOW - HOUR)
        unpriced = rows.instance(connection, "p4", gpu_type="nvidia-tesla-p4")
        rows.lifetime(connection, unpriced, NOW - 3 * HOUR, gpu_type="nvidia-tesla-p4", ended_at=NOW - 2 * HOUR)
    BudgetWatch(database, HandClock(NOW), [_BUDGET], timedelta(minutes=5)).look()
    holds = BudgetHolds(database, Rules({}, budgets=(_BUDGET,)))
    with database.read() as connection:
        holds(connection, [job()], NOW)
    holds.tell(None, NOW)
    charge_due(database, NOW)


def _prices(database: Database) -> None:
    """Records a price from the catalogue that changes, and one that is refused."""
    refresh(database, _Catalogue([_T4]), NOW - 20 * DAY)
    refresh(database, _Catalogue([replace(_T4, rate_nanos=Money.of("0.4").nanos, in_force_from=NOW)]), NOW)
    refresh(database, _Catalogue([replace(_T4, rate_nanos=0, in_force_from=NOW)]), NOW + HOUR)


@dataclass(frozen=True)
class _Catalogue:
    prices: Sequence[Price]

    def fetch(self) -> Sequence[Price]:
        return self.prices


@dataclass
class _NoRows:
    """A billing export that is empty."""

    name: str = "lab.billing.export"
    bytes_billed: int = 10 << 20

    def rows(self, first: date, after: date) -> Iterator[Mapping[str, Any]]:
        return iter(())


def _bill(database: Database) -> None:
    read_table(database, _NoRows(), 7, NOW)
    vm = BilledThing(BilledKind.INSTANCE, "lab", "4711")
    line = BillLine(
        date(2026, 11, 15), vm, "trainer", "4711", "trainer", "us-central1-a", "gpu:nvidia-tesla-t4", (),
        BillState.DIFFERS, Reason.MISSING, Fraction(24), Fraction(0), 8_400_000_000, None, None,
    )  # fmt: skip
    with database.write() as connection:
        event = drift_event(connection, [line], NOW)
        assert event is not None
        audit_log.append(connection, [event], NOW)
