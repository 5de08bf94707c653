"""A job's cost in MLflow: at every heartbeat the ledger's, across preemptions and outages, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update
from tests.jobs.world import World, world
from tests.trackers.mlflow_server import Mlflow, MlflowFront

from costguard.daemon import restoring
from costguard.db import tables
from costguard.errors import Missing
from costguard.jobs.listing import jobs as listing
from costguard.jobs.reports.agent_events import AgentEvents
from costguard.ledger.accrual import accrual_at
from costguard.ledger.charged.charging import charge_due
from costguard.model.delivery.tracker import Tracker
from costguard.model.generation import Cause
from costguard.model.job import JobState
from costguard.trackers import rows
from costguard.trackers.delivery import GIVE_UP, Trackers
from costguard.trackers.mlflow import MlflowClient
from costguard.trackers.points import TrackedJobs

MINUTE = timedelta(minutes=1)


@dataclass
class TrackedWorld:
    """A job whose cost goes to a run of MLflow's; `hour` lets it work and report every half minute."""

    world: World
    server: MlflowFront
    run: str = ""
    trackers: Trackers | None = None

    def __post_init__(self) -> None:
        self.run = self.mlflow.create_run()
        self.guard()
        self.world.submit(mlflow_run=self.run)

    @property
    def mlflow(self) -> Mlflow:
        return self.server.backend

    def guard(self) -> None:
        """A new process."""
        self.end()
        here, mlflow = self.world, frozenset({Tracker.MLFLOW})
        reported = TrackedJobs(here.database, mlflow).reported
        here.hearing = AgentEvents(here.database, here.clock, here.tokens, lambda: None, reported)
        client = MlflowClient(self.server.url, "0", timeout_s=30)
        self.trackers = Trackers(here.database, {Tracker.MLFLOW: client}, here.clock)

    def end(self) -> None:
        if self.trackers is not None:
            self.trackers.close()

    def deliver(self) -> None:
        assert self.trackers is not None
        self.trackers.deliver()

    def look(self) -> None:
        """A pass: the ledger as Google has it, with its charges."""
        self.world.look()
        charge_due(self.world.database, self.world.clock.now())

    def beat(self, name: str, step: int | None) -> dict[str, Decimal]:
        """A report of the agent, and the figures of the job's page at that moment."""
        self.world.clock.advance(timedelta(seconds=30))
        self.look()
        self.world.beat(name, step=step)
        return self.ledger()

    def ledger(self) -> dict[str, Decimal]:
        with self.world.database.read() as connection:
            overview = listing.job_detail(connection, accrual_at(connection, self.world.clock.now()), "j1")
        if overview is None:
            raise Missing("There is no job j1.")
        assert overview.row.cost.whole
        figures = {
            "cost_usd": overview.row.cost.amount.dollars,
            "preemptions": Decimal(overview.row.preemptions),
            "work_lost_seconds": Decimal(overview.lost.span // timedelta(seconds=1)),
            "work_lost_usd": overview.lost.cost.dollars,
        }
        if overview.pace.cost_per_1000 is not None:
            figures["usd_per_1000_steps"] = overview.pace.cost_per_1000.dollars
        return figures

    def shown(self) -> dict[str, Decimal]:
        """Returns the run's latest values in MLflow, to the nano-dollar."""
        return {key: Decimal(repr(value)) for key, value in self.mlflow.latest(self.run).items()}

    def costs(self) -> list[Decimal]:
        return [Decimal(repr(one.value)) for one in self.mlflow.history(self.run, "cost_usd")]

    def times(self) -> list[int]:
        return [one.timestamp for one in self.mlflow.history(self.run, "cost_usd")]

    def stored(self) -> Any:
        with self.world.database.read() as connection:
            return connection.execute(select(tables.tracked_runs)).one()

    def points(self) -> int:
        with self.world.database.read() as connection:
            return connection.execute(select(func.count()).select_from(tables.tracker_points)).scalar_one()

    def launch(self, number: int) -> str:
        name = f"cg-j1-{number}"
        self.world.until_up(name)
        self.world.look()
        self.world.start(name)
        return name

    def preempt(self, name: str) -> None:
        self.world.notice(name)
        self.world.cloud.preempt(self.world.vm(name))
        self.world.settle(3)
        self.look()


@pytest.fixture
def tracked(sqlite_url: str, server: MlflowFront) -> Iterator[TrackedWorld]:
    with tracked_world(sqlite_url, server) as here:
        yield here


@contextmanager
def tracked_world(url: str, server: MlflowFront) -> Iterator[TrackedWorld]:
    with world(url) as here:
        tracked = TrackedWorld(here, server)
        try:
            yield tracked
        finally:
            tracked.end()


def test_cost_in_mlflow_is_the_ledgers_at_every_heartbeat(database_url: str, server: MlflowFront) -> None:
    """The cost holds across three preemptions, after each of which the job is at an earlier step, and an outage in
    between.
    """
    with tracked_world(database_url, server) as tracked:
        seen = [cost for number in (1, 2, 3, 4) for cost in lived(tracked, number, is_away=number == 3)]
        assert set(seen) <= set(tracked.costs())
        assert len(tracked.times()) == len(set(tracked.times())) == 4 * (1 + 6) + 3  # starts, beats, and notices
        assert tracked.shown()["preemptions"] == 3
        assert tracked.shown()["work_lost_seconds"] > 0
        assert tracked.points() == 0


def lived(tracked: TrackedWorld, number: int, *, is_away: bool) -> Iterator[Decimal]:
    """The ledger's cost at each heartbeat of one VM until it is preempted: MLflow has the same unless it is away."""
    name, begun = tracked.launch(number), 400 * (number - 1)
    tracked.server.trouble = 503 if is_away else None
    tracked.world.clock.advance(timedelta(minutes=10))
    for step in range(begun, begun + 600, 100):
        if step == begun + 400:
            tracked.world.shelf.save(step)
        figures = tracked.beat(name, step)
        tracked.deliver()
        if not is_away:
            assert tracked.shown() == figures
        yield figures["cost_usd"]
    if number < 4:
        tracked.preempt(name)


def test_a_tracker_that_is_away_loses_nothing_and_gets_nothing_twice(tracked: TrackedWorld) -> None:
    """It is away for two hours, is not asked more often than every five minutes, and then gets all at once."""
    name = tracked.launch(1)
    tracked.server.trouble = 503
    ledger = []
    for number in range(240):
        ledger.append(tracked.beat(name, number)["cost_usd"])
        tracked.deliver()
    assert tracked.costs() == []
    assert len(tracked.server.paths) < 40
    assert tracked.stored().waiting == 241  # with the report of the start
    tracked.server.trouble = None
    tracked.world.clock.advance(10 * MINUTE)
    tracked.deliver()
    assert tracked.costs()[1:] == ledger
    assert tracked.server.paths.count("runs/log-batch") < 45


def test_a_tracker_that_is_away_is_left_alone(tracked: TrackedWorld) -> None:
    """All runs wait together: a second job's run is not tried in the meantime."""
    other = tracked.mlflow.create_run()
    tracked.world.submit("j2", mlflow_run=other)
    tracked.world.until_up("cg-j2-1")
    tracked.world.start("cg-j2-1")
    tracked.beat(tracked.launch(1), 1)
    tracked.server.trouble = 503
    tracked.deliver()
    tracked.deliver()
    assert tracked.server.paths == ["runs/log-batch"]


def test_a_lost_answer_logs_nothing_twice(tracked: TrackedWorld) -> None:
    """MLflow wrote the request and hung up: what the run has is read back before anything is sent again."""
    name = tracked.launch(1)
    tracked.beat(name, 1)
    tracked.server.loses_answers = True
    tracked.deliver()
    tracked.server.loses_answers = False
    tracked.beat(name, 2)
    tracked.world.clock.advance(10 * MINUTE)
    tracked.deliver()
    assert len(tracked.costs()) == len(set(tracked.costs())) == 3
    assert tracked.points() == 0


def test_a_request_that_was_written_in_part_is_completed(tracked: TrackedWorld) -> None:
    """MLflow may write a part of a request that fails."""
    name = tracked.launch(1)
    for step in range(4):
        tracked.beat(name, step)
    tracked.server.most_written = 7
    tracked.deliver()
    tracked.server.most_written = None
    tracked.world.clock.advance(10 * MINUTE)
    tracked.deliver()
    for key in tracked.shown():
        times = [one.timestamp for one in tracked.mlflow.history(tracked.run, key)]
        assert len(times) == len(set(times))
    assert len(tracked.costs()) == 5


def test_a_guard_killed_before_it_stored_the_answer_logs_nothing_twice(tracked: TrackedWorld) -> None:
    """The next process does not know whether the points arrived, and looks."""

    class Killed(BaseException):
        pass

    name = tracked.launch(1)
    tracked.beat(name, 1)
    client = MlflowClient(tracked.server.url, "0", timeout_s=30)

    class DiesAfter:
        def log(self, run: str, points: Any) -> None:
            client.log(run, points)
            raise Killed

        def close(self) -> None:
            client.close()

    dying = Trackers(tracked.world.database, {Tracker.MLFLOW: DiesAfter()}, tracked.world.clock)
    with pytest.raises(Killed):
        dying.deliver()
    client.close()
    assert len(tracked.costs()) == 2
    tracked.guard()
    tracked.beat(name, 2)
    tracked.deliver()
    assert len(tracked.costs()) == 3


def test_a_restored_database_logs_nothing_twice(tracked: TrackedWorld) -> None:
    """The points wait as they did when the backup was made, and were logged since."""
    name = tracked.launch(1)
    tracked.beat(name, 1)
    with tracked.world.database.read() as connection:
        waiting = [dict(row._mapping) for row in connection.execute(select(tables.tracker_points))]
    tracked.deliver()
    with tracked.world.database.write() as connection:
        connection.execute(insert(tables.tracker_points), waiting)
        connection.execute(update(tables.tracked_runs).values(waiting=len(waiting)))
        restoring.begin(connection, Cause.RESTORED, tracked.world.clock.now())
    tracked.guard()
    tracked.deliver()
    assert tracked.points() == 0
    assert len(tracked.costs()) == len(waiting) == 2


def test_heartbeats_wait_for_no_tracker(tracked: TrackedWorld) -> None:
    """A report makes no request to the tracker."""
    name = tracked.launch(1)
    tracked.beat(name, 1)
    assert tracked.server.paths == []
    assert tracked.points() == 2


def test_a_deleted_run_is_reported_once_and_goes_on_when_it_is_restored(tracked: TrackedWorld) -> None:
    """The owner gets one event, however often it is tried; points are kept for the run."""
    name = tracked.launch(1)
    tracked.mlflow.delete_run(tracked.run)
    for _ in range(5):
        tracked.beat(name, 1)
        tracked.world.clock.advance(61 * MINUTE)
        tracked.deliver()
    [event] = tracked.world.events("TrackerRunRefused")
    assert "must be in the 'active' state" in event.text
    assert tracked.stored().error
    tracked.mlflow.restore_run(tracked.run)
    tracked.world.clock.advance(61 * MINUTE)
    tracked.deliver()
    assert len(tracked.costs()) == 6
    assert tracked.stored().error == ""


def test_a_wrong_run_holds_up_no_other(tracked: TrackedWorld) -> None:
    """A second job names a run that MLflow does not have: the first one's points are logged all the same."""
    tracked.world.submit("j2", mlflow_run="f" * 32)
    tracked.world.until_up("cg-j2-1")
    tracked.world.start("cg-j2-1")
    name = tracked.launch(1)
    tracked.beat(name, 1)
    tracked.deliver()
    assert len(tracked.costs()) == 2
    [event] = tracked.world.events("TrackerRunRefused")
    assert event.data["job"] == "j2"


def test_the_last_point_has_the_final_cost(tracked: TrackedWorld) -> None:
    """Once all VMs of a job that is over are gone and billed, one point says what it came to; then none follows."""
    name = tracked.launch(1)
    tracked.beat(name, 10)
    tracked.world.exit(name)
    for _ in range(20):
        tracked.world.step(30)
        tracked.look()
        tracked.deliver()
    assert tracked.world.job().state is JobState.SUCCEEDED
    assert tracked.stored().ended_at is not None
    assert tracked.shown()["cost_usd"] == tracked.ledger()["cost_usd"]
    many = len(tracked.costs())
    tracked.world.settle(120, every=600)
    tracked.deliver()
    assert len(tracked.costs()) == many


def test_points_are_given_up_after_thirty_days(tracked: TrackedWorld) -> None:
    """A tracker that nobody brings back does not fill the database, and the owner is notified."""
    name = tracked.launch(1)
    tracked.server.trouble = 503
    tracked.beat(name, 1)
    tracked.deliver()
    tracked.world.clock.advance(GIVE_UP - MINUTE)
    tracked.deliver()
    assert tracked.points() == 2
    tracked.world.clock.advance(20 * MINUTE)
    tracked.deliver()
    assert (tracked.points(), tracked.stored().waiting) == (0, 0)
    assert len(tracked.world.events("TrackerPointsGivenUp")) == 1


def test_reports_in_one_millisecond_make_points_of_their_own(tracked: TrackedWorld) -> None:
    """MLflow keeps milliseconds: two points at one time would be one."""
    name = tracked.launch(1)
    tracked.world.beat(name, step=1)
    tracked.world.beat(name, step=2)
    tracked.deliver()
    times = [one.timestamp for one in tracked.mlflow.history(tracked.run, "preemptions")]
    assert len(times) == len(set(times)) == 3


def test_jobs_without_a_run_make_no_points(tracked: TrackedWorld) -> None:
    """A tracker that the settings do not name gets none either."""
    tracked.world.submit("j2")
    tracked.world.submit("j3", wandb_run="lab/bert/1")
    for job in ("j2", "j3"):
        tracked.world.until_up(f"cg-{job}-1")
        tracked.world.start(f"cg-{job}-1")
    with tracked.world.database.read() as connection:
        assert [run.waiting for job in ("j2", "j3") for run in rows.of_job(connection, job)] == [0]
