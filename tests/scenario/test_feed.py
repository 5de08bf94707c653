"""Events over HTTP, from the simulated audit log to the ledger: lost, doubled, disordered ones cost latency alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select
from tests.scenario.books import assert_consistent
from tests.scenario.direct import DirectPrices
from tests.scenario.fleet import HOUR, MINUTE, PROJECTS, Life, body, price_list
from tests.shards.ledger import spent_by_vm

from costguard.access.rules import Rules
from costguard.daemon.feed import FeedTask
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import Reconciler
from costguard.db import lease as leases
from costguard.db.lease import Lease
from costguard.db.tables import instances, lifetimes
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.ledger.discovery.rules import WatchScope
from costguard.ledger.feed.late_answers import LateAnswers
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_refresh import refresh
from costguard.main.feed import feed, late_answers
from costguard.settings.feed import FeedSection
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.meter import bills
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 8, 0, 7, tzinfo=UTC)
TOPIC, SUBSCRIPTION = "projects/acme-events/topics/costguard", "projects/acme-events/subscriptions/costguard"
CENT = 10_000_000
ZONE = "us-central1-a"


class _WorldClock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.now


@dataclass
class Watch:
    """A guard's passes and its task of events, on a world that only they and the test move."""

    world: World
    database: Database
    passes: Reconciler
    task: FeedTask
    lease: Lease
    later: LateAnswers
    listed: set[str] = field(default_factory=set)  # every VM that a listing has shown

    def hear(self) -> None:
        """Takes every event off the subscription that is there."""
        for _ in range(1000):
            self.task.run(self.lease, threading.Event())
            if self.world.pubsub.unread(SUBSCRIPTION)[0] == 0:
                return
        raise AssertionError(f"messages stay: {self.task.state}")

    def sweep(self) -> None:
        self.listed |= {str(vm.id) for project in PROJECTS for vm in self.world.instances(project)}
        report = self.passes.run(self.lease)
        assert report.failed_projects == ()

    def advance(self, by: timedelta, every: timedelta = 5 * MINUTE) -> None:
        """Lets time go by; events are heard every so often."""
        end = self.world.now + by
        while self.world.now < end:
            self.world.advance(min(every, end - self.world.now))
            self.hear()

    def end_all(self) -> None:
        """Deletes what is there, so that every bill is final."""
        for vm in [vm for project in PROJECTS for vm in self.world.instances(project)]:
            if vm.status is not Status.DELETED:
                self.world.request("delete", vm.project, vm.zone, vm.name)
        self.advance(2 * HOUR)

    def spent(self) -> Mapping[str, int]:
        """Nano-dollars in the ledger, by the VM's number."""
        with self.database.read() as connection:
            assert_consistent(connection)
        return spent_by_vm(self.database)

    def billed(self) -> Mapping[str, int]:
        world = self.world
        return {str(one.vm.id): one.nanos for one in bills(world.every_vm(), world.prices, world.now)}

    def with_first_entry(self) -> set[str]:
        """The VMs whose insert's first entry was not lost."""
        lost = {one["insertId"] for one in self.world.audit.lost}
        return {
            one["resource"]["labels"]["instance_id"]
            for one in self.world.audit.written
            if one["protoPayload"]["methodName"] == "v1.compute.instances.insert"
            and one.get("operation", {}).get("first")
            and one["insertId"] not in lost
        }


def _inserted(world: World, wanted: Mapping[str, Any]) -> None:
    world.insert(PROJECTS[0], ZONE, wanted)


def _deleted(world: World, name: str) -> None:
    world.request("delete", PROJECTS[0], ZONE, name)


@contextmanager
def watching(database: Database, world: World) -> Iterator[Watch]:
    """A guard whose first look was before any VM was made, and a sink from then on."""
    world.prices = price_list()
    world.pubsub.add_topic(TOPIC)
    world.pubsub.add_subscription(SUBSCRIPTION, TOPIC, 600)
    world.audit.send_to(TOPIC)
    clock, belonging = _WorldClock(world), Belonging((), OwnerRules())
    lease = leases.acquire(database, "daemon", "me", timedelta(days=365))
    assert lease is not None
    refresh(database, DirectPrices(world), world.now)
    with running(world) as url, closing(ComputeCloud(url, clock, wait=lambda _: True)) as cloud:
        section = FeedSection(subscription=SUBSCRIPTION, endpoint=url, pulls=1)
        with feed(section, database, cloud, clock, belonging, pause=lambda _stop, _seconds: None) as task:
            assert task is not None
            passes = Reconciler(database, cloud, clock, lambda: PROJECTS, Rules({}), belonging, LookPace(2))
            scope = WatchScope(places=(f"organizations/{world.assets.organization}",))
            later = late_answers(scope, database, cloud, clock, belonging)
            watch = Watch(world, database, passes, task, lease, later)
            watch.sweep()
            yield watch


def test_the_ledger_equals_the_bill_whatever_became_of_events(sqlite_database: Database) -> None:
    """A tenth lost, a twentieth doubled, all disordered within 20 minutes, some torn or foreign: after the next sweep
    every VM that a listing or its first entry showed costs what the simulated bill says, to the cent.
    """
    world = World(ManualClock(START), projects=PROJECTS, seed=11)
    for kind, value in (("drop", 0.1), ("double", 0.05), ("torn", 0.02), ("foreign", 0.05)):
        world.audit.faults.add(kind, share=value)
    world.audit.faults.add("disorder", seconds=1200)
    Life(world, 11, 36).plan(START, START + 4 * HOUR, every=MINUTE)
    with watching(sqlite_database, world) as watch:
        for _ in range(16):
            watch.advance(15 * MINUTE)
            watch.sweep()
        watch.end_all()
        watch.sweep()
        spent, billed = watch.spent(), watch.billed()
        shown = watch.listed | (watch.with_first_entry() & billed.keys())
        state = watch.task.state
    assert len(world.audit.lost) > 10
    assert world.audit.doubled > 3
    assert (state.trouble, state.set_aside) == ("", 0)
    assert state.foreign > 0  # torn ones
    assert len(shown) > 30
    wrong = {gce_id: (spent.get(gce_id), billed[gce_id]) for gce_id in shown if billed[gce_id] > 0}
    wrong = {gce_id: pair for gce_id, pair in wrong.items() if abs((pair[0] or 0) - pair[1]) >= CENT // 2}
    assert wrong == {}


@pytest.mark.parametrize("source", ["first entries", "the history of assets", "nothing"])
def test_vms_of_90_seconds_are_priced_by_their_first_entry_or_their_history(
    sqlite_database: Database, source: str
) -> None:
    """A hundred VMs come and go between two sweeps. Each is priced to the cent by its first entry, or, where all of
    these are lost, by Google's history of assets; where that is refused, each is counted and no price is made up.
    """
    world = World(ManualClock(START), projects=PROJECTS, seed=12)
    if source != "first entries":
        world.audit.faults.add("drop", share=1, part="first")
    if source == "nothing":
        world.rights.withhold(f"organizations/{world.assets.organization}", "cloudasset.assets.exportResource")
    world.audit.faults.add("disorder", seconds=60)
    with watching(sqlite_database, world) as watch:
        for number in range(100):
            name, at = f"short-{number}", world.now + timedelta(seconds=5 + 7 * number)
            wanted = body(name, ZONE, "n1-standard-4", spot=number % 2 == 0, disk_gib=2000)
            world.at(at, partial(_inserted, world, wanted))
            world.at(at + timedelta(seconds=90), partial(_deleted, world, name))
        watch.advance(25 * MINUTE)
        assert world.instances(PROJECTS[0]) == []
        watch.sweep()
        before = watch.spent()
        watch.later.run(watch.lease)
        watch.sweep()
        spent, billed = watch.spent(), watch.billed()
        with sqlite_database.read() as connection:
            recorded = set(connection.execute(select(instances.c.gce_id)).scalars())
            counted = set(
                connection.execute(
                    select(instances.c.gce_id).join(lifetimes, lifetimes.c.instance_id == instances.c.id)
                ).scalars()
            )
    assert len(billed) == 100
    assert all(nanos > 0 for nanos in billed.values())
    assert recorded == counted == billed.keys()
    assert watch.listed == set()
    assert (len(before), len(spent)) == {
        "first entries": (100, 100), "the history of assets": (0, 100), "nothing": (0, 0)
    }[source]  # fmt: skip
    assert {gce_id for gce_id in spent if abs(spent[gce_id] - billed[gce_id]) >= CENT // 20} == set()
