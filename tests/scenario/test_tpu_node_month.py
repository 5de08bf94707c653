"""A month of TPU nodes in the ledger: to the cent what the meter says, whatever could not be read on the way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from tests.gce.conftest import Waits
from tests.scenario.books import assert_consistent, estimates, total_spend
from tests.scenario.fleet import body
from tests.within import charge_due

from costguard.access.rules import Rules
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import Reconciler
from costguard.db.tables import instances, lifetimes
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_refresh import refresh
from costguard.model.preset import Match, Preset
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.meter import bills, node_bills
from costguard_sandbox.gce.tpus import TpuNode
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 10, 30, 17, tzinfo=UTC)
HOUR, CENT = timedelta(hours=1), 10_000_000
PROJECT = "acme-training"
KINDS = (
    ("v5litepod-8", "us-west4-a"),
    ("v6e-4", "europe-west4-a"),
    ("v6e-16", "europe-west4-a"),
    ("v5p-8", "us-east5-a"),
)


@contextmanager
def _guarded(database: Database, world: World) -> Iterator[Reconciler]:
    presets = (Preset("v6e-fleet", Match(gpu_types=frozenset({"v6e"})), limit=None),)
    belonging = Belonging(presets, OwnerRules(domain="example.com"))
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=Waits(), tpu_nodes=True)) as cloud:
        refresh(database, CatalogPrices(url), world.now)
        yield Reconciler(database, cloud, world.clock, lambda: (PROJECT,), Rules({}), belonging, LookPace(1))


def _world() -> World:
    world = World(ManualClock(START), projects=[PROJECT])
    world.prices = PriceList(("us-central1", "europe-west4", "us-west4", "us-east5"))
    world.tpus.enabled.add(PROJECT)
    return world


class _Life:
    """Nodes come, stop, start and go, at odd seconds. None comes and goes between two looks."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._chance, self._number = world, random.Random(seed), 0

    def plan(self, until: datetime) -> None:
        moment = START
        while moment < until:
            moment += timedelta(hours=self._chance.uniform(3.5, 14))
            self._world.at(moment, self._something)

    def _something(self) -> None:
        nodes = [one for one in self._world.tpus.nodes(PROJECT, "-") if one.state in ("READY", "STOPPED")]
        if len(nodes) < 3:
            self._number += 1
            kind, zone = self._chance.choice(KINDS)
            given = {"acceleratorType": kind, "schedulingConfig": {"spot": self._chance.random() < 0.4}}
            name = f"train-{self._number % 4}-{zone}"  # names are used again
            if not any(one.name == name for one in self._world.tpus.nodes(PROJECT, "-")):
                self._world.tpus.create(PROJECT, zone, name, {**given, "labels": {"owner": "ana"}})
            return
        node = self._chance.choice(nodes)
        verb = "delete" if node.slice.hosts > 1 else self._chance.choice(("stop", "start", "delete"))
        if verb == "delete" or (verb == "stop") == (node.state == "READY"):
            self._world.tpus.ask(verb, node)


def _key(node: TpuNode) -> str:
    return f"tpu.{node.id}"


def test_a_month_with_tpu_nodes_costs_what_the_meter_says(sqlite_database: Database) -> None:
    """Next to a VM of Compute Engine, through failing lists and three hours between looks: nothing is estimated."""
    world = _world()
    world.insert(PROJECT, "us-central1-a", body("vm", "us-central1-a", "a2-highgpu-1g"))
    _Life(world, 5).plan(START + timedelta(days=30))
    with _guarded(sqlite_database, world) as guard:
        for number in range(30 * 8):
            world.advance(3 * HOUR)
            if number % 20 == 10:
                world.faults.add("server_error", code=500, path="/v2/", count=8)
            guard.run()
    with sqlite_database.write() as connection:
        assert charge_due(connection, world.now).charges == 0
        assert_consistent(connection)
        assert estimates(connection) == 0
        spent = total_spend(connection, START.date(), world.now)
        rows = connection.execute(select(instances.c.gce_id, instances.c.preset))
        recorded = {row.gce_id: row.preset for row in rows}
        opened = connection.execute(select(lifetimes.c.id).where(lifetimes.c.ended_at.is_(None))).all()
    ready = [node for node in world.tpus.ever if node.runs]
    metered = [*bills(world.every_vm(), world.prices, world.now), *node_bills(ready, world.prices, world.now)]
    assert not any(one.unpriced for one in metered)
    assert {one.slice.chip for one in ready} == {"ct5lp", "ct6e", "ct5p"}
    assert len(ready) > 10
    assert abs(spent - sum(one.nanos for one in metered)) < CENT // 2
    assert {_key(one) for one in ready} <= recorded.keys()
    assert {recorded[_key(one)] for one in ready if one.slice.chip == "ct6e"} == {"v6e-fleet"}
    assert len(opened) == 1 + sum(node.state == "READY" for node in ready)


def test_a_node_without_its_operations_is_off_while_the_looks_show_it_off(sqlite_database: Database) -> None:
    """A preemption has no operation, and without the permission to list them nothing has: the looks tell then."""
    world = _world()
    world.faults.add("forbidden", project=PROJECT, path="/operations$")
    world.tpus.create(PROJECT, "europe-west4-a", "train", {"acceleratorType": "v6e-4"})
    node = world.tpus.ever[0]
    with _guarded(sqlite_database, world) as guard:
        for act in ("", "", "stop", "", "start", "", "preempt", ""):
            if act == "preempt":
                world.tpus.preempt(node)
            elif act:
                world.tpus.ask(act, node)
            world.advance(HOUR)
            guard.run()
    with sqlite_database.read() as connection:
        runs = connection.execute(select(lifetimes).order_by(lifetimes.c.started_at)).all()
        row = connection.execute(select(instances)).one()
    assert row.gone_at is None
    spans = [(run.started_at, run.ended_at, run.end_is_estimate) for run in runs]
    looks = [START + number * HOUR for number in range(1, 9)]
    assert spans == [(START, looks[2], True), (looks[4], looks[6], True)]


def test_losing_the_api_or_the_permission_makes_no_node_gone(sqlite_database: Database) -> None:
    """The row stays as it was last seen, says why it is not known, and bills on; back again, all is as it was."""
    world = _world()
    world.tpus.create(PROJECT, "europe-west4-a", "train", {"acceleratorType": "v6e-4"})
    with _guarded(sqlite_database, world) as guard:
        world.advance(HOUR)
        guard.run()
        world.tpus.enabled.clear()
        world.advance(HOUR)
        (report,) = guard.run().recorded
        assert [part.scope for part in report.unread] == ["TPU nodes"]
        assert "gcloud services enable tpu.googleapis.com" in report.unread[0].reason
        world.tpus.enabled.add(PROJECT)
        world.advance(HOUR)
        (report,) = guard.run().recorded
        assert report.unread == ()
    with sqlite_database.write() as connection:
        charge_due(connection, world.now)
        spent = total_spend(connection, START.date(), world.now)
        assert connection.execute(select(instances.c.gone_at)).scalar_one() is None
    (metered,) = node_bills(world.tpus.ever, world.prices, world.now)
    assert spent == metered.nanos
