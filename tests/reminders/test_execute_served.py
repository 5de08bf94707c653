"""A VM is stopped for real: Google's client, HTTP, the simulated cloud, and the ledger that tells the end of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from tests.reminders.execute_setup import BELONGING, due

from costguard.db.tables import lifetimes
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.ledger.record import record
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.instance import InstanceKey
from costguard.model.reminder import Subject, SubjectKind
from costguard.reminders import stop_rows
from costguard.reminders.execute import LiveExecutor
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

ZONE = "us-central1-a"
START = datetime(2026, 11, 2, 8, tzinfo=UTC)


@dataclass
class Served:
    world: World
    cloud: ComputeCloud
    database: Database
    executor: LiveExecutor

    def look(self) -> None:
        record(self.database, self.cloud, self.cloud.observe("demo", None), BELONGING, None)

    def insert(self) -> None:
        disk = {"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": "debian-12"}}
        body = {
            "name": "trainer",
            "machineType": f"zones/{ZONE}/machineTypes/n1-standard-4",
            "disks": [disk],
            "networkInterfaces": [{"network": "global/networks/default"}],
        }
        self.world.insert("demo", ZONE, body)

    def running_vm(self) -> StopInstance:
        """A VM in the ledger, and what a rule wants of it."""
        self.insert()
        self.later()
        with self.database.read() as connection:
            life = connection.execute(select(lifetimes)).one()
        return StopInstance(
            subject=Subject(SubjectKind.RUN, life.instance_id, life.id),
            key=InstanceKey("demo", str(self.world.instance("demo", "trainer").id)),
            name="trainer",
            zone=ZONE,
            rule="preset t4: stop after 1 unanswered reminder and 1 h",
            reason="nobody answered",
            due_at=None,
            started_at=life.started_at,
            reminder="reminder/run:1:1/0/0/owner",
        )

    def later(self) -> None:
        self.world.advance(timedelta(minutes=5))
        self.look()
        self.executor.settle()

    def outcome(self, action: StopInstance) -> StopOutcome:
        with self.database.read() as connection:
            (stop,) = stop_rows.of_subjects(connection, [action.subject])[action.subject]
        return stop.outcome

    def stopped_how_often(self, kind: str = "stop") -> int:
        return sum(operation.kind == kind for operation in self.world.operations.of("demo"))


@pytest.fixture
def served(sqlite_database: Database) -> Iterator[Served]:
    clock = ManualClock(START)
    world = World(clock)
    with running(world) as url:
        cloud = ComputeCloud(url, clock, wait=lambda _: False)
        yield Served(world, cloud, sqlite_database, LiveExecutor(sqlite_database, cloud, clock, due))
        cloud.close()


def test_from_the_decision_to_the_end(served: Served) -> None:
    """The stop is asked once, and done as soon as a look shows the end of the run."""
    action = served.running_vm()
    (outcome,) = served.executor.carry_out([action])
    assert outcome.result == "asked"
    served.later()
    assert served.outcome(action) is StopOutcome.DONE
    assert served.stopped_how_often() == 1


@pytest.mark.parametrize(
    ("kind", "values"),
    [("server_error", {"method": "POST"}), ("garbage", {"path": "/stop$"}), ("server_error", {"path": "/trainer$"})],
)
def test_trouble_on_the_way(served: Served, kind: str, values: dict[str, str]) -> None:
    """A 5xx or an answer that is none, to the look or to the stop, is made up for at the next pass, by one stop."""
    action = served.running_vm()
    served.world.faults.add(kind, count=1, **values)
    served.executor.carry_out([action])
    for _ in range(3):
        served.later()
    assert served.outcome(action) is StopOutcome.DONE
    assert served.stopped_how_often() == 1


def test_a_service_account_that_may_not_stop(served: Served) -> None:
    """It fails at once, and the VM runs on."""
    action = served.running_vm()
    served.world.faults.add("forbidden", project="demo", path="/stop$")
    (outcome,) = served.executor.carry_out([action])
    assert outcome.result == "failed"
    assert "deploy/iam-role-stop.yaml" in outcome.text
    assert served.stopped_how_often() == 0


def test_a_namesake_is_not_stopped(served: Served) -> None:
    """The VM was deleted and made again under its name since the last look."""
    action = served.running_vm()
    served.world.delete("demo", "trainer")
    served.world.advance(timedelta(minutes=5))
    served.insert()
    served.world.advance(timedelta(minutes=5))
    (outcome,) = served.executor.carry_out([action])
    assert (outcome.result, served.stopped_how_often()) == ("not_needed", 0)
