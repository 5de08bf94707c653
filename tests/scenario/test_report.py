"""A day and a bit in shadow mode on the simulated cloud: the report's amounts are what the meter took."""

from __future__ import annotations

import random
from datetime import UTC, datetime, time, timedelta
from fractions import Fraction

from tests.scenario.direct import DirectCloud, DirectPrices
from tests.scenario.fleet import ZONES, body
from tests.scenario.test_every_family import machine

from costguard.access.rules import Rules
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import Reconciler
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_refresh import refresh
from costguard.model.money import Priced
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import QuietRule, ReminderRule
from costguard.reminders.report import FleetReport, LeftAlone, RuleOutcome
from costguard.reminders.report_rows import fleet_report
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.world import World

START = datetime(2026, 11, 23, 9, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
PROJECT, ZONE = "acme-training", ZONES[0]
CENT = 10_000_000
T4 = ("nvidia-tesla-t4", 1)
NODE = {"goog-gke-node": "", "goog-k8s-cluster-name": "train", "goog-k8s-node-pool-name": "t4"}
PRESET = Preset(OTHER, Match(), 8 * HOUR, reminders=ReminderRule(every=2 * HOUR, stop_after=2, grace=HOUR))
RULES = Rules({OTHER: PRESET}, quiet=QuietRule(time(), time(), frozenset()))
FIRST_LOOK, LAST_LOOK = START + 10 * HOUR, START + 37 * HOUR


def made() -> World:
    """Seven VMs on an untouched cloud; one is stopped by its owner after thirty hours, one comes late."""
    world = World(ManualClock(START), projects=[PROJECT])
    bodies = [
        body("late", ZONE, "n1-standard-4", T4, labels={"owner": "ana"}),
        body("nobodys", ZONE, "a2-highgpu-1g"),
        body("mystery", ZONE, "g2-standard-8", labels={"owner": "ben"}),
        body("ended", ZONE, "n1-standard-4", T4, labels={"owner": "ana"}),
        *(body(f"node-{number}", ZONE, "n1-standard-4", T4, labels=NODE) for number in range(2)),
    ]
    for one in bodies:
        world.insert(PROJECT, ZONE, one, "robot@acme-training.iam.gserviceaccount.com")

    def end() -> None:
        world.stop(PROJECT, "ended")

    def come() -> None:
        new = body("new", ZONE, "n1-standard-4", T4, labels={"owner": "ana"})
        world.insert(PROJECT, ZONE, new, "ana@example.com")

    world.at(START + 30 * HOUR, end)
    world.at(START + 35 * HOUR, come)
    return world


def watched(database: Database, world: World) -> FleetReport:
    """A pass every half an hour, from ten hours after the start on."""
    cloud, prices = DirectCloud(world, random.Random(1), 0), DirectPrices(world)
    prices.hidden = {"gpu:nvidia-l4"}
    world.advance(FIRST_LOOK - START)
    refresh(database, prices, world.now)
    belonging = Belonging((PRESET,), OwnerRules(domain="example.com"))
    while world.now <= LAST_LOOK:
        Reconciler(database, cloud, world.clock, lambda: [PROJECT], RULES, belonging, LookPace(1)).run()
        world.advance(30 * MINUTE)
    with database.read() as connection:
        return fleet_report(connection, RULES, world.now, 30)


def metered(name: str, since: datetime, until: datetime) -> Fraction:
    """Returns what the meter took for the machine between two moments, in an untouched life of the same fleet."""
    world, sums = made(), []
    for moment in (since, until):
        world.advance(moment - world.now)
        (vm,) = (vm for vm in world.every_vm() if vm.name == name)
        sums.append(machine(bill(vm, world.prices, world.now)))
    return sums[1] - sums[0]


def test_a_day_in_shadow_mode_costs_what_the_meter_says(database: Database) -> None:
    """Owned, unowned, ended: each to the cent, and so their sum and its month. One unpriced makes both `at least`."""
    report = watched(database, made())
    vms = {vm.name: vm for vm in report.vms}
    assert sorted(vms) == ["ended", "late", "mystery", "nobodys"]
    assert {vm.step for vm in report.vms} == {RuleOutcome.WOULD_STOP}
    total = Fraction(0)
    for name in ("ended", "late", "nobodys"):
        vm = vms[name]
        assert vm.stop_at is not None
        ours, meters = vm.left_cost, metered(name, vm.stop_at, report.until)
        assert ours.whole
        assert abs(ours.amount.nanos - meters) < CENT // 2, name
        assert abs(vm.due_cost.amount.nanos - metered(name, report.since, report.until)) < CENT // 2, name
        total += meters
    mystery = vms["mystery"]  # whose cores have a price, and whose GPU has none
    assert (mystery.left_cost.whole, mystery.rate, mystery.month_at_rate) == (False, None, None)
    total += mystery.left_cost.amount.nanos
    assert report.left_cost == Priced(report.left_cost.amount, whole=False)
    assert abs(report.left_cost.amount.nanos - total) < CENT
    assert report.left_month is not None
    assert not report.left_month.whole
    month = total * (730 * HOUR // MINUTE) / ((report.until - report.since) // MINUTE)
    assert abs(report.left_month.amount.nanos - month) < 30 * CENT  # of which a month has thirty times the rounding
    assert [vms[name].owner for name in ("late", "nobodys", "mystery")] == ["ana@example.com", "", "ben@example.com"]
    assert set(report.left_alone) == {
        LeftAlone(2, "kept by GKE"),
        LeftAlone(1, "within their limits (whether they are busy is not known)"),
    }
    assert (report.since, report.is_early) == (FIRST_LOOK, False)
