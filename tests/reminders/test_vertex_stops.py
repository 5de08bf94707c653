"""Jobs, runtimes and models of Vertex AI are stopped for real, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from tests.reminders.execute_setup import BELONGING, due

from costguard.db.tables import instances, lifetimes
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.gce.vertex.look import VertexRegions
from costguard.gce.vertex.resources import LISTS
from costguard.ledger.record import record
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.instance import InstanceKey
from costguard.model.keeper import KeeperKind
from costguard.model.reminder import Subject, SubjectKind
from costguard.reminders import stop_rows
from costguard.reminders.execute import LiveExecutor
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vertex import ManagedThing
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START, PROJECT, REGION = datetime(2026, 11, 2, 8, tzinfo=UTC), "demo", "us-central1"
T4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
SPEC = {"workerPoolSpecs": [{"machineSpec": T4, "replicaCount": "1"}]}


@dataclass
class Served:
    world: World
    cloud: ComputeCloud
    database: Database

    def executor(self, *through: KeeperKind) -> LiveExecutor:
        return LiveExecutor(self.database, self.cloud, self.world.clock, due, time.monotonic, frozenset(through))

    def later(self) -> None:
        for _ in LISTS:
            self.world.advance(timedelta(minutes=2))
            record(self.database, self.cloud, self.cloud.observe(PROJECT, START), BELONGING, None)

    def action(self) -> StopInstance:
        with self.database.read() as connection:
            row = connection.execute(select(instances)).one()
            life = connection.execute(select(lifetimes)).one()
        return StopInstance(
            subject=Subject(SubjectKind.RUN, row.id, life.id),
            key=InstanceKey(PROJECT, row.gce_id),
            name=row.name,
            zone=row.zone,
            rule="preset t4: stop after 1 unanswered reminder and 1 h",
            reason="nobody answered",
            due_at=None,
            started_at=life.started_at,
            reminder=f"reminder/run:{life.instance_id}:{life.id}/0/0/owner",
        )

    def outcome(self, action: StopInstance) -> StopOutcome:
        with self.database.read() as connection:
            (stop,) = stop_rows.of_subjects(connection, [action.subject])[action.subject]
        return stop.outcome


@pytest.fixture
def served(sqlite_database: Database) -> Iterator[Served]:
    clock = ManualClock(START)
    world = World(clock)
    world.vertex.enabled.add(PROJECT)
    with (
        running(world) as url,
        closing(
            ComputeCloud(url, clock, wait=lambda _: False, monotonic=lambda: clock.now().timestamp()).watch_vertex(
                VertexRegions((REGION,))
            )
        ) as cloud,
    ):
        yield Served(world, cloud, sqlite_database)


def _job(world: World) -> ManagedThing:
    return world.vertex.custom_job(PROJECT, REGION, "train", SPEC)


def _runtime(world: World) -> ManagedThing:
    return world.vertex.runtime(PROJECT, REGION, "notes", "ana@example.com", T4)


def _model(world: World) -> ManagedThing:
    return world.vertex.deploy(PROJECT, REGION, "chat", "llama", T4)


@pytest.mark.parametrize("make", [_job, _runtime, _model], ids=["job", "runtime", "model"])
def test_each_is_stopped_once_where_settings_allow_it(served: Served, make) -> None:  # type: ignore[no-untyped-def]
    """The stop is done as soon as a look shows the end, which is the end of what is billed."""
    thing = make(served.world)
    served.later()
    action, executor = served.action(), served.executor(KeeperKind.VERTEX)
    (outcome,) = executor.carry_out([action])
    assert outcome.result == "asked", outcome
    (again,) = executor.carry_out([action])
    assert again.result == "repeated"
    served.later()
    executor.settle()
    assert served.outcome(action) is StopOutcome.DONE
    assert thing.runs[-1].ended is not None
    with served.database.read() as connection:
        life = connection.execute(select(lifetimes)).one()
    assert life.ended_at is not None
    assert life.ended_at >= thing.runs[-1].ended


def test_nothing_is_asked_where_settings_do_not_allow_it(served: Served) -> None:
    """The stop is refused with the command that a person uses; the job runs on."""
    thing = _job(served.world)
    served.later()
    (outcome,) = served.executor().carry_out([served.action()])
    assert outcome.result == "failed"
    assert "gcloud ai custom-jobs cancel" in outcome.text
    assert 'enforcement.stop_through = ["vertex"]' in outcome.text
    assert thing.runs[-1].ended is None


def test_a_job_that_ended_meanwhile_is_not_cancelled(served: Served) -> None:
    """The look right before the stop sees it."""
    thing = _job(served.world)
    served.later()
    action = served.action()
    served.world.vertex.ask(PROJECT, REGION, "customJobs", thing.id, "cancel", {})
    served.world.advance(timedelta(minutes=5))
    (outcome,) = served.executor(KeeperKind.VERTEX).carry_out([action])
    assert outcome.result in ("not_needed", "held")
    assert served.outcome(action) is not StopOutcome.ASKED
