"""The guard's ledger of a simulated cloud against that cloud's billing export, with errors planted in it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select
from tests.sandbox.vms import ADDRESS, PROJECT, SPOT, T4, new_world, up
from tests.scenario.direct import DirectCloud, DirectPrices

from costguard.access.rules import Rules
from costguard.bill.comparing import BillComparer
from costguard.bill.export_row import read_row
from costguard.bill.export_sums import ExportSums
from costguard.bill.lines import EXPLAINED, Reason
from costguard.bill.store import store
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import Reconciler
from costguard.db.tables import bill_commitment_hours, bill_days, bill_differences, bill_partitions, bill_usage
from costguard.db.transaction import Database
from costguard.ledger.charged.charging import charge_due
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_refresh import refresh
from costguard.main.bill import sold_as
from costguard_sandbox.gce.billing import BillError, BillingExport, ExportOptions, Planted, billing_export
from costguard_sandbox.gce.billing.credits import CreditType
from costguard_sandbox.world import World

SEEDS = range(2)
BEGAN = datetime(2026, 3, 6, 15, 20, 11, tzinfo=UTC)  # Pacific time skips an hour on the 8th
ERROR_DAYS = (date(2026, 3, 7), date(2026, 3, 8), date(2026, 3, 9))
DAYS, VMS = 9, 9
# A day of Google's errors is Pacific and reaches into two UTC days: what is missing of one is less, in parts.
NAMED: Mapping[BillError, frozenset[Reason]] = {
    BillError.MISSING_VM: frozenset({Reason.MISSING, Reason.LESS}),
    BillError.UNKNOWN_VM: frozenset({Reason.UNKNOWN_VM}),
    BillError.WRONG_SECONDS: frozenset({Reason.MORE, Reason.LESS}),
    BillError.WRONG_PRICE: frozenset({Reason.PRICE}),
    BillError.REPEATED_ROW: frozenset({Reason.REPEATED}),
    BillError.WRONG_PROJECT: frozenset({Reason.OTHER_PROJECT}),
    BillError.WRONG_RATE: frozenset({Reason.CURRENCY_RATE}),
    BillError.REPEATED_CREDIT: frozenset({Reason.CREDIT}),
}


class _WorldClock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.now


@pytest.fixture(scope="module")
def world() -> World:
    """Nine VMs with and without T4s, some Spot, for nine days; every second one has an external address."""
    made = new_world(BEGAN - timedelta(days=1))
    made.advance(timedelta(days=1))
    for number in range(VMS):
        machine, more = (("n1-standard-4", T4), ("e2-standard-4", {}), ("n1-standard-2", {}))[number % 3]
        address = ADDRESS if number % 2 else {}
        up(made, f"vm-{number}", machine, **{**more, **(SPOT if number % 4 == 3 else {}), **address})
    return made


@pytest.fixture(scope="module")
def ledger(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Database]:
    """Makes a ledger as the guard recorded it: it looked before the first VM was made, and at the end of each day."""
    path = tmp_path_factory.mktemp("bill") / "ledger.db"
    shutil.copy(sqlite_template, path)
    with closing(Database.open(f"sqlite:///{path}")) as database:
        _recorded(database, world)
        yield database


def _recorded(database: Database, world: World) -> None:
    guard = Reconciler(
        database,
        DirectCloud(world, random.Random(1), 0.0),
        _WorldClock(world),
        lambda: (PROJECT,),
        Rules({}),
        Belonging((), OwnerRules()),
        LookPace(1),
    )
    refresh(database, DirectPrices(world), world.now)
    guard.run()
    while world.now < BEGAN + timedelta(days=DAYS):
        world.advance(timedelta(hours=12))
        guard.run()
    charge_due(database, world.now)


def options_of(seed: int, errors: tuple[BillError, ...]) -> ExportOptions:
    """Makes options in euros, dollars or yen; in pieces, up to 72 hours late, with credits."""
    currency, rate = (("EUR", "0.93364999999987552"), ("USD", "1"), ("JPY", "149.35"))[seed % 3]
    credits = frozenset({CreditType.SUSTAINED, CreditType.COMMITTED} if seed % 2 else {CreditType.SUSTAINED})
    return ExportOptions(
        seed=seed, currency=currency, rate=Decimal(rate), credits=credits, errors=errors, error_days=ERROR_DAYS
    )


def exported(world: World, options: ExportOptions) -> BillingExport:
    return billing_export(
        world.every_vm(), world.storage.ever, world.prices, BEGAN - timedelta(days=2), world.now, options
    )


def compare(ledger: Database, export: BillingExport, now: datetime) -> list[Any]:
    """The differing lines, after everything else of a bill was forgotten."""
    with ledger.write() as connection:
        for table in (bill_usage, bill_commitment_hours, bill_partitions, bill_days, bill_differences):
            connection.execute(delete(table))
    for until in (now - timedelta(days=2), now):  # read twice: the second time days are there again, and more of them
        sums = ExportSums()
        sums.add(map(read_row, export.until(until)))
        store(ledger, sums.partitions(), "test", now, is_whole=True)
    BillComparer(ledger, sold_as).run(now)
    with ledger.read() as connection:
        return list(connection.execute(select(bill_differences)))


def place_of(row: Any) -> tuple[str, str]:
    return row.gce_id if row.kind == "instance" else row.name, row.reason


def is_of(planted: Planted, row: Any) -> bool:
    """Says whether the line is where the error was planted: its VM or its SKU, on one of its two UTC days."""
    if not planted.pacific_day <= row.day <= planted.pacific_day + timedelta(days=1):
        return False
    if planted.sku_id:
        return planted.sku_id in row.sku_ids
    return bool(row.thing_id == planted.resource_id)


def test_ledger_and_export_agree_on_every_closed_day(ledger: Database, world: World) -> None:
    """Late, in pieces, re-read, in any currency, with credits: no line differs without an explanation."""
    now = world.now + timedelta(days=1)
    for seed in SEEDS:
        differing = compare(ledger, exported(world, options_of(seed, ())), now)
        assert [place_of(row) for row in differing if Reason(row.reason) not in EXPLAINED] == [], seed
        with ledger.read() as connection:
            closed = list(connection.execute(select(bill_days).where(bill_days.c.standing == "closed")))
        assert len(closed) >= 4
        for day in closed:
            assert abs(day.unexplained_nanos) == 0
            assert day.absolute_nanos * 31 < VMS * 10_000_000 * (1 if seed % 3 == 1 else 4)  # a cent a VM and month


def test_every_planted_error_is_named_and_none_is_invented(ledger: Database, world: World) -> None:
    """All eight kinds in one export: each is found with its reason, and nothing else is."""
    now = world.now + timedelta(days=1)
    for seed in SEEDS:
        export = exported(world, options_of(seed, tuple(BillError)))
        assert {one.error for one in export.planted} == set(BillError)
        differing = compare(ledger, export, now)
        alarming = [row for row in differing if Reason(row.reason) not in EXPLAINED]
        for planted in export.planted:
            mine = {Reason(row.reason) for row in alarming if is_of(planted, row)}
            assert mine & NAMED[planted.error], (seed, planted, mine)
        for row in alarming:
            causes = {planted.error for planted in export.planted if is_of(planted, row)}
            assert any(Reason(row.reason) in NAMED[error] for error in causes), (seed, place_of(row), row.day, causes)
