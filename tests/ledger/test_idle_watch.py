"""Idleness from the simulated cloud's figures to the fleet, the events and the plan, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert
from tests.jobs import job_rows

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.daemon.schedule import Daemon
from costguard.daemon.work import DaemonWork
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.gce.client import ComputeCloud
from costguard.ledger.accrual import Accrual
from costguard.ledger.fleet_rows import Filters
from costguard.ledger.idle import utilisation
from costguard.ledger.idle.watch import IdleWatch
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.model.attempt import AttemptState
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.utilisation import IdleRule, IdleState
from costguard.spend import fleet
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import Load
from costguard_sandbox.server import running
from costguard_sandbox.world import World

ZONE = "us-central1-a"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
PRESETS = {OTHER: Preset(OTHER, Match(), None, idle=IdleRule(500, 500, HOUR))}


class Place:
    """A world with a GPU VM of each load, and a guard that watches it."""

    def __init__(self, world: World, cloud: ComputeCloud, database: Database) -> None:
        self.world, self.database = world, database
        watched = ["demo"]
        self.reconciler = Reconciler(
            database, cloud, world.clock, lambda: watched, Rules(PRESETS), Belonging((), OwnerRules())
        )
        self.watch = IdleWatch(database, cloud, world.clock, lambda: watched, PRESETS, 5 * MINUTE)
        for load in Load:
            body: dict[str, Any] = {
                "name": load.value,
                "machineType": f"zones/{ZONE}/machineTypes/n1-standard-4",
                "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": "debian-12"}}],
                "networkInterfaces": [{"network": "global/networks/default"}],
                "guestAccelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}],
                "scheduling": {"onHostMaintenance": "TERMINATE"},
            }
            world.insert("demo", ZONE, body)
            world.set_load("demo", load.value, load)

    def measure(self, after: timedelta) -> int:
        self.world.advance(after)
        self.reconciler.run()
        return self.watch.record(self.watch.read()).written

    def views(self) -> dict[str, fleet.InstanceView]:
        with self.database.read() as connection:
            accrual = Accrual(PriceBook(()), self.world.clock.now())
            return {row.instance.name: row for row in fleet.fleet_page(connection, accrual, {}, Filters()).rows}

    def event_texts(self) -> list[str]:
        kinds = ("InstanceIdle", "InstanceBusy")
        with self.database.read() as connection:
            events = [one.event for kind in kinds for one in audit_log.read(connection, kind=kind)]
        return sorted(f"{event.name} {event.kind}" for event in events)


@pytest.fixture
def place(database: Database) -> Iterator[Place]:
    world = World(ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC)))
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=lambda _seconds: False)) as cloud:
        yield Place(world, cloud, database)


def states(place: Place) -> dict[str, tuple[str, bool] | None]:
    return {
        name: None if view.idle is None else (view.idle.state.value, view.idle.is_weak)
        for name, view in place.views().items()
    }


def test_from_figures_to_the_fleet(place: Place) -> None:
    """A busy VM, an idle one and one without agent, each judged for itself; a VM that becomes idle is recorded once."""
    place.measure(3 * HOUR)
    assert states(place) == {
        "busy": ("busy", True),  # by utilisation alone
        "idle": ("idle", False),
        "no-agent": ("idle", True),
        "spin": ("busy", True),
        "spin-dcgm": ("idle", False),
        "busy-dcgm": ("busy", False),
    }
    idle = place.views()["idle"].idle
    assert idle is not None
    assert idle.sentence.startswith("GPU under 5 % for 2 h 5")
    assert place.event_texts() == ["idle InstanceIdle", "no-agent InstanceIdle", "spin-dcgm InstanceIdle"]
    spins = place.views()["spin-dcgm"].idle
    assert spins is not None
    assert "of the GPU's SMs busy for 2 h 5" in spins.sentence
    assert spins.sentence.endswith(", though its utilisation reads 100 %")
    place.measure(20 * MINUTE)
    later = place.views()["idle"].idle
    assert later is not None
    assert later.since == idle.since
    assert len(place.event_texts()) == 3
    reasons = {one.name: one.reason for one in place.reconciler.act().decisions}
    assert ", idle for 3 h " in reasons["idle"]
    assert "by CPU and network alone" in reasons["no-agent"]
    assert "idle" not in reasons["busy"]
    assert "idle" not in reasons["spin"]
    assert ", idle for 3 h " in reasons["spin-dcgm"]


def test_work_that_goes_on_is_told(place: Place) -> None:
    """An idle VM that works again is busy at the next measurement, and a stopped one is neither."""
    place.measure(3 * HOUR)
    place.world.set_load("demo", "idle", Load.BUSY)
    place.world.stop("demo", "no-agent")
    place.measure(15 * MINUTE)
    assert states(place)["busy"] == states(place)["idle"] == ("busy", True)
    assert states(place)["no-agent"] is None
    assert "idle InstanceBusy" in place.event_texts()


@pytest.mark.parametrize("fault", [{"kind": "forbidden", "project": "demo"}, {"kind": "server_error"}])
def test_what_cannot_be_read_is_unknown_and_says_why(place: Place, fault: dict[str, Any]) -> None:
    """Google refuses the figures: nothing is idle, the pass goes on, and no event is recorded twice afterwards."""
    place.measure(3 * HOUR)
    place.world.faults.add(fault["kind"], path="timeSeries", **{k: v for k, v in fault.items() if k != "kind"})
    place.measure(15 * MINUTE)
    assert {state and state[0] for state in states(place).values()} == {"unknown"}
    idle = place.views()["idle"].idle
    assert idle is not None
    assert "Cloud Monitoring answered" in idle.sentence
    place.world.faults.clear()
    place.measure(15 * MINUTE)
    assert states(place)["idle"] == ("idle", False)
    assert len(place.event_texts()) == 3


def test_a_jobs_agent_takes_the_place_of_dcgm(place: Place) -> None:
    """A VM whose utilisation is full, and whose agent saw next to no SM at work for the whole window, is idle."""
    place.world.advance(3 * HOUR)
    place.reconciler.run()
    now = place.world.clock.now()
    gce_id = {vm.name: vm.key.gce_id for vm in _running(place)}["spin"]
    with place.database.write() as connection:
        job_rows.added(connection, project="demo")
        attempt = job_rows.attempt(connection, project="demo", gce_id=gce_id, state=AttemptState.RUNNING)
        minutes = [
            {
                "attempt_id": attempt.id,
                "at": now - number * MINUTE,
                "run": 1,
                "minute": {"gpus": [{"uuid": "GPU-1", "kernel_active": 1, "sm_active": 0.0076}]},
            }
            for number in range(60)
        ]
        connection.execute(insert(tables.activity_minutes), minutes)
    place.watch.record(place.watch.read())
    idle = place.views()["spin"].idle
    assert idle is not None
    assert (idle.state, idle.is_weak, idle.sm_max) == (IdleState.IDLE, False, 76)
    assert place.views()["spin-dcgm"].idle is not None
    with place.database.write() as connection:
        at = tables.activity_minutes.c.at
        connection.execute(delete(tables.activity_minutes).where(at > now - 40 * MINUTE, at < now - 20 * MINUTE))
    place.watch.record(place.watch.read())
    with_a_gap = place.views()["spin"].idle
    assert with_a_gap is not None
    assert with_a_gap.state is IdleState.UNKNOWN


def _running(place: Place) -> list[utilisation.Running]:
    with place.database.read() as connection:
        return utilisation.running(connection, "demo")


def test_old_evidence_says_nothing(place: Place) -> None:
    """When nobody measures any more, it is not known whether a VM is idle."""
    place.measure(3 * HOUR)
    place.world.advance(2 * HOUR)
    assert set(states(place).values()) == {None}


def test_evidence_that_stays_the_same_is_not_written_again(place: Place) -> None:
    """Young VMs are unknown; their rows are written when they change."""
    assert place.measure(30 * MINUTE) == len(Load)
    usages = place.watch.read()
    assert place.watch.record(usages).written == 0


def test_the_daemon_measures_after_its_first_pass(place: Place) -> None:
    """The measurement has the same lease and runs next to the passes, which a failing one leaves alone."""
    place.world.advance(3 * HOUR)
    work = DaemonWork(idle_watch=place.watch, idle_every=HOUR)
    daemon = Daemon(place.database, place.reconciler, "one", HOUR, work=work)
    daemon._pass()
    daemon._measure()
    idle = place.views()["idle"].idle
    assert idle is not None
    assert idle.state is IdleState.IDLE
    assert (daemon.is_acting, daemon.state.last_error) == (True, "")
    daemon.stop()
