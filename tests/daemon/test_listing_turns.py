"""A pass lists the projects whose turn it is, and those of which something is due first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, update
from tests.api import rows
from tests.builders import PROJECT, at, observation, operation, seen
from tests.fakes import FakeCloud, HandClock
from tests.jobs import job_rows
from tests.reminders.last_check_setup import RULES, Judged, judged_at
from tests.reminders.reminder_rows import stop

from costguard.access.rules import Rules
from costguard.daemon import hourly_counts
from costguard.daemon.listing_turns import ListingTurns, ReadStreams, at_work, earliest_moments
from costguard.daemon.listings import EventStreams, FeedWire, ListingReason, Stream
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import PassActs, Reconciler
from costguard.daemon.shard_keeper import all_projects
from costguard.db.tables import hourly_counts as counts
from costguard.db.tables import projects, unknown_vms
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.attempt import AttemptState
from costguard.model.instance import InstanceKey, Status
from costguard.model.observation import Observation, Unread
from costguard.model.ports import Clock
from costguard.model.reminder import RequestKind
from costguard.reminders.stop_case import ByTheRules
from costguard.reminders.watched import Decision, FleetPlan

OTHER = "acme-research"
NOON = at("12:00")
MINUTE = timedelta(minutes=1)
BELONGING = Belonging((), OwnerRules(domain="example.com"))


class Watching(FakeCloud):
    """Notes which projects were listed; each look takes so many requests."""

    def __init__(self, *observations: Observation) -> None:
        super().__init__({one.project: one for one in observations})
        self.listed: list[str] = []

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        self.listed.append(project)
        return super().observe(project, operations_since)


def alive(clock: Clock) -> ReadStreams:
    """Events of both projects come."""

    def read(_connection: Connection) -> EventStreams:
        now = clock.now()
        return EventStreams(FeedWire(heard_at=now), {PROJECT: Stream(now), OTHER: Stream(now)})

    return read


def silent(_connection: Connection) -> EventStreams:
    return EventStreams()


def running(number: int = 1, project: str = PROJECT, read: str = "12:00", **given: object) -> Observation:
    vm = seen(key=InstanceKey(project, str(1000 + number)), name=f"vm-{number}")
    return observation(vm, read=read, project=project, **given)


def reconciler(
    database: Database,
    cloud: FakeCloud,
    turns: ListingTurns,
    watched: Sequence[str] = (PROJECT, OTHER),
    **given: object,
) -> Reconciler:
    parts = {"clock": HandClock(NOON), "rules": Rules({}), **given}
    pace = LookPace(turns=turns)
    return Reconciler(database, cloud, watched=lambda: watched, belonging=BELONGING, pace=pace, **parts)  # type: ignore[arg-type]


def test_pass_lists_only_projects_whose_turn_it_is(sqlite_database: Database) -> None:
    """Both are listed at first; a minute later neither is, and when events stop coming, both."""
    cloud, clock = Watching(running(), running(2, OTHER)), HandClock(NOON)
    turns = ListingTurns(lambda connection: reading[0](connection))
    reading: list[ReadStreams] = [alive(clock)]
    passes = reconciler(sqlite_database, cloud, turns, clock=clock)
    assert passes.run().due == {PROJECT: ListingReason.NEVER_READ, OTHER: ListingReason.NEVER_READ}
    clock.advance(MINUTE)
    report = passes.run()
    assert (report.due, report.recorded, cloud.listed) == ({}, (), [PROJECT, OTHER])
    assert {decision.name for decision in report.plan.decisions} == {"vm-1", "vm-2"}  # it decides about all
    reading[0] = silent
    clock.advance(MINUTE)
    assert passes.run().due == {PROJECT: ListingReason.SILENT, OTHER: ListingReason.SILENT}


def test_projects_with_work_are_listed_in_every_pass(sqlite_database: Database) -> None:
    """A job's VM, a stop, a request and an unknown VM of ours each have their project listed; what is over has not."""
    with sqlite_database.write() as connection:
        for name in ("job", "stop", "asked", "unknown", "over", "idle"):
            rows.project(connection, name)
        job_rows.added(connection, "running-1")
        job_rows.attempt(connection, "running-1", project="job", name="a", state=AttemptState.RUNNING)
        job_rows.added(connection, "over-1")
        job_rows.attempt(connection, "over-1", project="over", name="b", state=AttemptState.OVER)
        for number, (project, outcome, settled) in enumerate(
            [("stop", "asked", None), ("over", "done", NOON), ("idle", "shadow", NOON)]
        ):
            vm = rows.instance(connection, f"vm-{number}", project=project)
            life = rows.lifetime(connection, vm, NOON)
            stop(connection, vm, life, NOON, outcome=outcome, settled_at=settled)
        connection.execute(
            insert(unknown_vms).values(
                project="unknown",
                gce_id="1",
                name="x",
                zone="z",
                job="j",
                generation=1,
                request_uuid="",
                status="running",
                reason="",
                found_at=NOON,
            )
        )
    with sqlite_database.read() as connection:
        assert at_work(connection) == {"job", "stop", "unknown"}


def test_request_has_its_project_listed(sqlite_database: Database) -> None:
    """A person's request rests on how the VM is now."""
    judged = judged_at(sqlite_database)
    with sqlite_database.read() as connection:
        assert at_work(connection) == set()
    judged.scene.ask(judged.subject, RequestKind.STOP)
    with sqlite_database.read() as connection:
        assert at_work(connection) == {PROJECT}


def _stopping(judged: Judged, cloud: FakeCloud) -> Reconciler:
    """Passes at 12:00, when a rule is about to stop the VM that was last listed a minute ago."""
    scene = judged.scene
    with scene.database.write() as connection:
        moments = {"last_complete_at": at("11:59"), "last_tried_at": at("11:59")}
        connection.execute(update(projects).values(moments))
    acts = PassActs(executor=scene.executor(still_due=ByTheRules(RULES)))
    return reconciler(
        scene.database, cloud, ListingTurns(alive(scene.clock)), [PROJECT], clock=scene.clock, rules=RULES, acts=acts
    )


def test_due_stop_has_its_project_listed_before_it_is_decided_on(sqlite_database: Database) -> None:
    """Nobody knew that it would be due: the pass lists the project, then stops the VM, which still runs."""
    judged = judged_at(sqlite_database)
    cloud = Watching(running())
    report = _stopping(judged, cloud).run()
    assert (report.due, cloud.listed) == ({}, [PROJECT])
    assert [one.project for one in report.recorded] == [PROJECT]
    assert [call[:2] for call in judged.google.calls] == [("stop", "1001")]


def test_vm_that_ended_unnoticed_is_not_stopped(sqlite_database: Database) -> None:
    """The owner stopped it at 11:50 and the event was lost: after the listing nothing is left to be stopped."""
    judged = judged_at(sqlite_database)
    ended = operation("stop", "11:50", "11:51", target_id="1001", target_name="vm-1")
    vm = seen(Status.STOPPED, key=InstanceKey(PROJECT, "1001"), name="vm-1", fingerprint="s", last_stopped_at="11:51")
    cloud = Watching(observation(vm, read="12:00", operations=(ended,)))
    report = _stopping(judged, cloud).run()
    assert (cloud.listed, judged.google.calls) == ([PROJECT], [])
    assert [decision.reason for decision in report.plan.decisions] == ["stopped: only what it stores is billed"]


def test_vm_of_an_unreadable_project_is_not_stopped(sqlite_database: Database) -> None:
    """A stop is due, and the listing before it fails: nothing is decided until one succeeds."""
    judged = judged_at(sqlite_database)
    cloud = Watching(
        observation(
            read="12:00",
            instances_complete=False,
            unread_zones=frozenset({"us-central1-a"}),
            unread=(Unread("us-central1-a", "it did not answer", "unreachable"),),
        )
    )
    report = _stopping(judged, cloud).run()
    assert (cloud.listed, judged.google.calls) == ([PROJECT], [])
    assert report.plan.decisions[0].reason.startswith("not known")


def test_due_stop_in_a_project_of_another_replica_waits_for_its_look(sqlite_database: Database) -> None:
    """The replica that acts asks for the look; the one that holds the project makes it; then the VM is stopped."""
    judged = judged_at(sqlite_database)
    clock = judged.scene.clock
    clock.moment = NOON + timedelta(minutes=2)
    acting = _stopping(judged, Watching())
    cloud = Watching(running())
    holding = reconciler(sqlite_database, cloud, ListingTurns(alive(clock)), [PROJECT], clock=clock)
    with sqlite_database.write() as connection:
        connection.execute(update(projects).values(last_complete_at=at("11:58"), last_tried_at=at("11:58")))
    with (
        all_projects(sqlite_database, "b", lambda: [PROJECT]) as of_holding,
        all_projects(sqlite_database, "a", lambda: [PROJECT]) as of_acting,
    ):
        assert set(of_holding.held()) == {PROJECT}
        assert holding.look(of_holding).due == {}
        acting.run(shards=of_acting)
        assert (cloud.listed, judged.google.calls) == ([], [])
        clock.advance(timedelta(seconds=5))
        assert holding.look(of_holding).due == {PROJECT: ListingReason.WORK}
        acting.run(shards=of_acting)
    assert (cloud.listed, [call[0] for call in judged.google.calls]) == ([PROJECT], ["stop"])


def test_moment_of_the_next_decision_has_its_project_listed_first(sqlite_database: Database) -> None:
    """The last plan named the next reminder: at that moment the listing comes before the decision."""
    clock = HandClock(NOON)
    turns = ListingTurns(alive(clock))
    cloud = Watching(running(), running(2, OTHER))
    reconciler(sqlite_database, cloud, turns, clock=clock).run()
    decision = Decision(InstanceKey(OTHER, "1002"), "vm-2", "due", due_at=NOON + MINUTE, next_at=NOON + MINUTE)
    turns.decided(FleetPlan((decision,)), NOON)
    with sqlite_database.read() as connection:
        assert turns.due(connection, [PROJECT, OTHER], NOON + MINUTE - timedelta(seconds=1)) == {}
        assert turns.due(connection, [PROJECT, OTHER], NOON + MINUTE) == {OTHER: ListingReason.WORK}


def test_earliest_moment_of_a_project_is_that_of_its_first_decision() -> None:
    """Reminders, stops and limits that are to come count; a limit that has passed says nothing of the next step."""
    key, other = InstanceKey(PROJECT, "1"), InstanceKey(OTHER, "2")
    plan = FleetPlan(
        (
            Decision(key, "a", "late", due_at=at("10:00"), next_at=at("14:00"), stop_at=at("13:00")),
            Decision(key, "b", "soon", due_at=at("12:30")),
            Decision(key, "c", "no limit"),
            Decision(other, "d", "late, and left alone", due_at=at("10:00")),
        )
    )
    assert earliest_moments(plan, NOON) == {PROJECT: at("12:30")}


def test_requests_are_counted_with_those_that_events_saved(sqlite_database: Database) -> None:
    """Two projects take 3 and 5 requests: the first pass lists both, the next five none. Stored every five minutes."""
    cloud, clock = Watching(running(requests=3), running(2, OTHER, requests=5)), HandClock(NOON)
    passes = reconciler(sqlite_database, cloud, ListingTurns(alive(clock)), clock=clock)
    for _ in range(6):
        passes.run()
        clock.advance(MINUTE)
    with sqlite_database.read() as connection:
        assert hourly_counts.between(connection, NOON, at("13:00")) == {
            hourly_counts.LISTINGS: 2,
            hourly_counts.REQUESTS: 8,
            hourly_counts.WITHOUT_EVENTS: 48,
        }


def test_counts_of_an_hour_add_up_and_old_ones_go(database: Database) -> None:
    """Two replicas count into one hour; the first count of a later hour drops what is older than forty days."""
    with database.write() as connection:
        hourly_counts.add(connection, {"a": 2, "none": 0}, NOON)
        hourly_counts.add(connection, {"a": 3, "b": 1}, NOON + timedelta(minutes=59))
        hourly_counts.add(connection, {"a": 7}, NOON + timedelta(hours=1))
    with database.read() as connection:
        assert hourly_counts.between(connection, NOON, NOON + timedelta(hours=1)) == {"a": 5, "b": 1}
        assert hourly_counts.last_hours(connection, NOON + timedelta(minutes=90)) == {"a": 5, "b": 1}
        assert hourly_counts.last_hours(connection, NOON + timedelta(hours=9)) is None
    with database.write() as connection:
        hourly_counts.add(connection, {"a": 1}, NOON + timedelta(days=40, hours=1, minutes=1))
        assert connection.execute(counts.select().order_by(counts.c.hour)).all()[0].hour == NOON + timedelta(hours=1)
