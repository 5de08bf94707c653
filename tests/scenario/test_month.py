"""The promise that the ledger is exact: the guard's spend against the simulated cloud's own meter."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select
from tests.accrued import assert_totals_hold
from tests.fakes import HandClock
from tests.scenario.fleet import HOUR, PROJECTS, ZONES, Life

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db.tables import charges, instances, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.errors import PriceSourceError
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.ledger import price_refresh
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard_sandbox.clock import ManualClock, to_ms
from costguard_sandbox.gce.meter import bills
from costguard_sandbox.server import running
from costguard_sandbox.world import World

# The month holds the end of daylight saving time in Google's own zone.
START = datetime(2026, 10, 15, tzinfo=UTC)
CENT = 10_000_000
BELONGING = Belonging((), OwnerRules(domain="example.com"))


@dataclass
class Outcome:
    """What the guard's ledger says of each VM, and what the meter says."""

    vms: int = 0
    lifetimes: int = 0
    guard_nanos: int = 0
    meter_nanos: int = 0
    worst_nanos: int = 0
    wrong: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    passes: int = 0
    outages: int = 0
    unread: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


@contextmanager
def _guard(database: Database, url: str, clock: HandClock) -> Iterator[Reconciler]:
    cloud = ComputeCloud(url, clock, wait=lambda _seconds: False)
    try:
        yield Reconciler(database, cloud, clock, PROJECTS, Rules({}), BELONGING)
    finally:
        cloud.close()


def live_through(database: Database, span: timedelta, size: int, seed: int, step: timedelta) -> Outcome:
    """Let a fleet live, look at it now and then, and compare the books at the end."""
    world = World(ManualClock(START), projects=PROJECTS, seed=seed)
    life = Life(world, seed, size)
    life.plan(START, START + span - 2 * HOUR, every=span / (size * 20))
    chance, clock, outcome = random.Random(seed + 1), HandClock(START), Outcome()
    outage_until = START
    with running(world) as url, _guard(database, url, clock) as guard:
        source = CatalogPrices(url)
        price_refresh.refresh(database, source, clock.now())
        guard.run()  # from here on it watches: what came and went before its first look is not its
        day, prices_wanted = START.date(), False
        while clock.now() < START + span:
            world.advance(step)
            clock.moment = world.now
            last = clock.now() >= START + span
            if not last and clock.now() < outage_until:
                continue
            if not last and chance.random() < 0.02:
                outage_until = clock.now() + chance.uniform(1, 18) * HOUR
                outcome.outages += 1
            world.faults.clear()
            if not last and chance.random() < 0.1:
                world.faults.add("unreachable_zone", zone=chance.choice(ZONES))
                outcome.unread += 1
            if not last and chance.random() < 0.05:
                world.faults.add("server_error", count=chance.randrange(1, 8), code=chance.choice((500, 503)))
            if clock.now().date() != day:
                day = clock.now().date()
                if day.day % 9 == 0:
                    _change_prices(world, chance)
                    prices_wanted = True
            if prices_wanted:
                # A catalogue that fails is asked again at the next pass; a change is charged from its moment on.
                with suppress(PriceSourceError):
                    price_refresh.refresh(database, source, clock.now())
                    prices_wanted = False
            guard.run()
            with database.read() as connection:
                assert_totals_hold(connection, clock.now() + chance.random() * step)
            outcome.passes += 1
        # Charges of what still runs are stored up to the last midnight, so that is where the books are compared.
        until = clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        world.advance_to(until + timedelta(seconds=1))
        clock.moment = world.now
        guard.run()
    _compare(database, world, until, outcome)
    outcome.happened.update(life.happened)
    return outcome


def _change_prices(world: World, chance: random.Random) -> None:
    """Google makes some things dearer and some cheaper, from this moment on."""
    changing = (("gpu:nvidia-tesla-t4", "us-central1"), ("n1:core", "us-east1"), ("a2:ram", "us-central1"))
    for resource, region in changing:
        for spot in (False, True):
            nanos, _unit = world.prices.rate(resource, region, spot, world.now)
            world.prices.change(resource, region, spot, int(nanos * chance.uniform(0.9, 1.1)), world.now)


def _compare(database: Database, world: World, until: datetime, outcome: Outcome) -> None:
    ledger = _ledger(database)
    for bill in bills(world.every_vm(), world.prices, until):
        key = (bill.vm.project, str(bill.vm.id))
        name = f"{bill.vm.name} ({key[1]})"
        mine, is_priced = ledger.pop(key, (0, None))
        if is_priced is False:
            # It came and went unseen: in the ledger with its runs, and without a price.
            outcome.unseen.append(name)
            ran = [(to_ms(run.began), to_ms(run.ended) if run.ended else None) for run in bill.vm.runs]
            if _runs(database, *key) != ran:
                outcome.wrong.append(f"{name}: {_runs(database, *key)} against {ran}")
            continue
        outcome.vms += 1
        outcome.guard_nanos += mine
        outcome.meter_nanos += bill.nanos
        outcome.worst_nanos = max(outcome.worst_nanos, abs(mine - bill.nanos))
        if abs(mine - bill.nanos) >= CENT // 2:
            outcome.wrong.append(f"{name}: {mine} against {bill.nanos}")
    outcome.wrong += [f"{key} is in the ledger and never was" for key in ledger]
    with database.read() as connection:
        reasons = connection.execute(select(lifetimes.c.end_reason, func.count()).group_by(lifetimes.c.end_reason))
        outcome.reasons = Counter({str(reason): count for reason, count in reasons})
        outcome.lifetimes = sum(outcome.reasons.values())


def _runs(database: Database, project: str, gce_id: str) -> list[tuple[datetime, datetime | None]]:
    query = (
        select(lifetimes.c.started_at, lifetimes.c.ended_at)
        .join(instances, instances.c.id == lifetimes.c.instance_id)
        .where(instances.c.project == project, instances.c.gce_id == gce_id)
        .order_by(lifetimes.c.started_at)
    )
    with database.read() as connection:
        return [(started_at, ended_at) for started_at, ended_at in connection.execute(query)]


def _ledger(database: Database) -> dict[tuple[str, str], tuple[int, bool]]:
    """Nano-dollars of every VM, and whether its shape is known."""
    booked: dict[tuple[str, str], tuple[int, bool]] = {}
    with database.read() as connection:
        for row in connection.execute(select(instances)):
            booked[(row.project, row.gce_id)] = (0, row.vcpus > 0)
        for span, table in (("lifetime", lifetimes), ("storage", storage_spans)):
            sums = connection.execute(
                select(instances.c.project, instances.c.gce_id, func.sum(charges.c.amount_nanos))
                .join(table, table.c.id == charges.c.span_id)
                .join(instances, instances.c.id == table.c.instance_id)
                .where(charges.c.span == span)
                .group_by(instances.c.project, instances.c.gce_id)
            )
            for project, gce_id, nanos in sums:
                amount, is_priced = booked[(project, gce_id)]
                booked[(project, gce_id)] = (amount + int(nanos), is_priced)
    return booked


def test_four_days_on_postgresql(postgres_url: str) -> None:
    """Every VM to the cent, with restarts, preemptions, name reuse, outages and unreadable zones."""
    with closing(Database.open(postgres_url)) as database:
        _assert_exact(live_through(database, timedelta(days=4), size=8, seed=7, step=HOUR))


def test_a_month(sqlite_database: Database) -> None:
    """The same for a month, which also holds a change of the clock in Google's zone and three of prices."""
    outcome = live_through(sqlite_database, timedelta(days=31), size=20, seed=1, step=2 * HOUR)
    _assert_exact(outcome)
    assert {"stopped", "preempted", "deleted", "host_error", "guest_shutdown", "run_time_limit"} <= set(outcome.reasons)


def _assert_exact(outcome: Outcome) -> None:
    assert outcome.wrong == []
    assert abs(outcome.guard_nanos - outcome.meter_nanos) < CENT, outcome
    print(f"\n{outcome}")
    assert outcome.vms > 4 * len(outcome.unseen)
