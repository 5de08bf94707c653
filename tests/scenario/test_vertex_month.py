"""A month of Vertex AI and Colab Enterprise in the ledger: to the cent what the meter says, region by region."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.gce.conftest import Waits
from tests.scenario.books import assert_consistent, total_spend
from tests.within import charge_due

from costguard.access.rules import Rules
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import Reconciler
from costguard.db.tables import charges, instances, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.gce.vertex.look import VertexRegions
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_refresh import refresh
from costguard.model.preset import Match, Preset
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.meter.vertex import thing_bills
from costguard_sandbox.gce.vertex import ManagedThing
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 10, 30, 17, tzinfo=UTC)
LOOK, SECOND, CENT = timedelta(minutes=30), timedelta(seconds=1), 10_000_000
PROJECT = "acme-training"
REGIONS = ("us-central1", "europe-west4")
T4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
L4, A100, H100 = ({"machineType": name} for name in ("g2-standard-8", "a2-highgpu-1g", "a3-highgpu-8g"))


class _Monotonic:
    """The seconds of the world's clock, by which regions are asked in turn."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self) -> float:
        return (self._world.clock.now() - START).total_seconds()


def spec(machine: dict[str, Any], replicas: int = 1, strategy: str = "STANDARD") -> dict[str, Any]:
    pool = {"machineSpec": machine, "replicaCount": str(replicas), "diskSpec": {"bootDiskSizeGb": 200}}
    return {"workerPoolSpecs": [pool], "scheduling": {"strategy": strategy}}


@contextmanager
def guarded(database: Database, world: World) -> Iterator[Reconciler]:
    presets = (Preset("h100-fleet", Match(gpu_types=frozenset({"nvidia-h100-80gb"})), limit=None),)
    belonging = Belonging(presets, OwnerRules(domain="example.com"))
    with (
        running(world) as url,
        closing(
            ComputeCloud(url, world.clock, wait=Waits(), monotonic=_Monotonic(world)).watch_vertex(
                VertexRegions(REGIONS)
            )
        ) as cloud,
    ):
        refresh(database, CatalogPrices(url, with_vertex=True), world.now)
        yield Reconciler(database, cloud, world.clock, lambda: (PROJECT,), Rules({}), belonging, LookPace(1))


def made_world() -> World:
    world = World(ManualClock(START), projects=[PROJECT])
    world.prices = PriceList(REGIONS)
    world.vertex.enabled.add(PROJECT)
    return world


def id_of(thing: ManagedThing) -> str:
    return ".".join(filter(None, ("vertex", thing.collection, thing.region, thing.id, thing.part)))


def _act(begin: Callable[[], object]) -> None:
    begin()


def _jobs(world: World, chance: random.Random, until: datetime) -> None:
    """Jobs of all ways to buy, of minutes to days, some shorter than the time between two looks."""
    moment = START + timedelta(hours=2)
    number = 0
    while moment < until:
        number += 1
        machine, replicas, strategy = chance.choice(
            (
                (T4, 1, "STANDARD"),
                (H100, 1, "FLEX_START"),
                (A100, 2, "SPOT"),
                (L4, 1, "STANDARD"),
                (H100, 2, "STANDARD"),
            )
        )
        lasts = timedelta(seconds=chance.choice((200, 1_000, 9_000, 90_000)) + chance.uniform(0, 500))
        region = chance.choice(REGIONS)
        begin = partial(
            world.vertex.custom_job, PROJECT, region, f"Train {number}", spec(machine, replicas, strategy), lasts=lasts
        )
        world.at(moment, partial(_act, begin))
        moment += timedelta(hours=chance.uniform(0.3, 3))


def test_a_month_of_jobs_costs_what_the_meter_says(sqlite_database: Database) -> None:
    """Each run agrees to the second and the sum to the cent, though most jobs come and go between two looks."""
    world = made_world()
    _jobs(world, random.Random(7), START + timedelta(days=4))
    with guarded(sqlite_database, world) as guard:
        for number in range(4 * 48):
            world.advance(LOOK)
            if 100 < number < 110:
                world.vertex.refusing.add("europe-west4")
            else:
                world.vertex.refusing.clear()
            guard.run()
    with sqlite_database.write() as connection:
        assert charge_due(connection, world.now).charges == 0
        assert_consistent(connection)
        rows = connection.execute(
            select(instances.c.gce_id, lifetimes).join(lifetimes, lifetimes.c.instance_id == instances.c.id)
        ).all()
        spent = total_spend(connection, START.date(), world.now)
    recorded = {row.gce_id: row for row in rows}
    metered = [bill for bill in thing_bills(world.vertex.ever, world.prices, world.now) if bill.thing.runs]
    assert not any(bill.unpriced for bill in metered)
    assert len(metered) > 40
    for bill in metered:
        row, run = recorded[id_of(bill.thing)], bill.thing.runs[0]
        assert (row.started_at, row.ended_at) == (run.began, run.ended), bill.thing.shown
        assert (row.end_is_estimate, row.unpriced) == (False, "")
    assert len(rows) == len(metered)
    assert abs(spent - sum(bill.nanos for bill in metered)) < CENT // 2


def test_a_stopped_runtime_bills_its_disks_until_it_is_deleted(sqlite_database: Database) -> None:
    """The ledger agrees with the meter to the cent, and the disks go on where the machine does not."""
    world = made_world()
    with guarded(sqlite_database, world) as guard:
        world.advance(LOOK)
        guard.run()
        runtime = world.vertex.runtime(PROJECT, REGIONS[1], "notes", "ana@example.com", T4, disk=(500, "pd-balanced"))

        def pass_hours(hours: int) -> None:
            for _ in range(2 * hours):
                world.advance(LOOK)
                guard.run()

        def ask(verb: str) -> None:
            world.vertex.ask(PROJECT, REGIONS[1], "notebookRuntimes", runtime.id, verb, {})

        pass_hours(3)
        ask("stop")
        pass_hours(40)
        with sqlite_database.read() as connection:
            stopped = connection.execute(select(storage_spans).order_by(storage_spans.c.name)).all()
        ask("delete")
        pass_hours(6)
    with sqlite_database.write() as connection:
        charge_due(connection, world.now)
        assert_consistent(connection)
        spans = connection.execute(select(storage_spans).order_by(storage_spans.c.name)).all()
        of_disks = select(func.sum(charges.c.amount_nanos)).where(charges.c.span == "storage")
        disks = connection.scalar(of_disks)
    assert [(span.name, span.resource, span.size_mib, span.ended_at) for span in stopped] == [
        ("boot disk", "disk:colab-enterprise-pd-ssd", 100 * 1024, None),
        ("data disk", "disk:colab-enterprise-pd-balanced", 500 * 1024, None),
    ]
    (bill,) = thing_bills(world.vertex.ever, world.prices, world.now)
    (there,) = runtime.there
    assert there.ended is not None
    assert {span.started_at for span in spans} == {there.began}
    for span in spans:
        assert span.unpriced == ""
        assert span.ended_at - there.ended <= LOOK  # the look that did not find it any more
    metered = sum(part.exact for resource, part in bill.resources.items() if resource.startswith("colab|disk:"))
    as_long = Fraction((spans[0].ended_at - there.began) / SECOND) / Fraction((there.ended - there.began) / SECOND)
    assert abs(disks - metered * as_long) < CENT  # the hours at the end are of a longer month
    assert disks > 4 * CENT


def _runs_of(database: Database) -> list[Any]:
    with database.write() as connection:
        assert_consistent(connection)
        return list(connection.execute(select(lifetimes).order_by(lifetimes.c.started_at)).all())


@pytest.mark.parametrize("end", ["goes-on", "is-lost", "is-cancelled"])
def test_a_spot_job_is_not_billed_while_it_waits_for_machines_again(sqlite_database: Database, end: str) -> None:
    """The look that shows it ends the first run, or begins the next."""
    world, look = made_world(), timedelta(minutes=1)
    with guarded(sqlite_database, world) as guard:

        def pass_minutes(minutes: int) -> None:
            for _ in range(minutes):
                world.advance(look)
                guard.run()

        pass_minutes(2)
        job = world.vertex.custom_job(PROJECT, REGIONS[0], "train", spec(A100, 1, "SPOT"))
        pass_minutes(60)
        world.vertex.preempt(job, timedelta(hours=2), is_lost=end == "is-lost")
        pass_minutes(60)
        waiting = _runs_of(sqlite_database)
        if end == "is-cancelled":
            world.vertex.ask(PROJECT, REGIONS[0], "customJobs", job.id, "cancel", {})
        pass_minutes(90)
        if end == "goes-on":
            world.vertex.ask(PROJECT, REGIONS[0], "customJobs", job.id, "cancel", {})
            pass_minutes(30)
        runs = _runs_of(sqlite_database)
    (first,) = waiting
    assert first.started_at == job.runs[0].began
    assert first.end_is_estimate
    assert timedelta(0) <= first.ended_at - job.runs[0].ended <= 2 * look
    assert len(runs) == len(job.runs) == (2 if end == "goes-on" else 1)
    assert runs[0] == first
    if end == "goes-on":
        second, true = runs[1], job.runs[1]
        assert timedelta(0) <= second.started_at - true.began <= 2 * look
        assert (second.ended_at, second.end_is_estimate) == (true.ended, False)
