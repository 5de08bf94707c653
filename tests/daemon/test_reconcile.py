"""A pass goes on after failures, and a crash leaves a whole ledger."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import event, func, select, text
from tests.api import rows
from tests.builders import PROJECT, at, observation, operation, seen
from tests.fakes import FakeCloud, HandClock
from tests.ledger.ledger_rows import ledger_rows

from costguard.access.rules import Rules
from costguard.daemon.reconcile import PassReport, Reconciler
from costguard.daemon.shard_keeper import ShardKeeper
from costguard.db import lease as leases
from costguard.db.tables import instances, label_days, lifetimes
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, StoreError
from costguard.events import audit_log
from costguard.ledger import prices, projects
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey, ProvisioningModel, Status
from costguard.model.money import Money
from costguard.model.observation import Observation, Unread
from costguard.model.price import Price, PriceKey, Unit

OTHER = "acme-research"
NOW = at("2026-11-03T00:10:00")
BELONGING = Belonging((), OwnerRules(domain="example.com"))


def _look(project: str, number: int, status: Status = Status.RUNNING, **given: object) -> Observation:
    vm = seen(status, key=InstanceKey(project, str(number)), name=f"vm-{number}", fingerprint=f"{status}")
    return observation(vm, read="2026-11-03T00:09:00", project=project, **given)


def _reconciler(database: Database, cloud: FakeCloud, *projects: str) -> Reconciler:
    return Reconciler(
        database, cloud, HandClock(NOW), lambda: projects or tuple(cloud.observations), Rules({}), BELONGING
    )


def _vms(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(instances)).scalar_one()


class _Broken(FakeCloud):
    """Raises what no adapter should, for one project."""

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        if project == OTHER:
            raise KeyError("zone")
        return super().observe(project, operations_since)

    def presence(self, key: InstanceKey, zone: str, name: str) -> object:  # type: ignore[override]
        raise OSError("the resolver is gone")


def test_a_project_whose_look_breaks_does_not_stop_the_others(sqlite_database: Database) -> None:
    """The error is shown as unread and remembered with the project; nothing of it is taken for gone."""
    cloud = _Broken({PROJECT: _look(PROJECT, 1)})
    report = _reconciler(sqlite_database, cloud, OTHER, PROJECT).run()
    assert _vms(sqlite_database) == 1
    broken = next(one for one in report.recorded if one.project == OTHER)
    assert [(part.scope, part.code) for part in broken.unread] == [("project", "unexpected")]
    assert "KeyError" in broken.unread[0].reason


def test_pass_rolls_up_the_labels_that_the_settings_name(sqlite_database: Database) -> None:
    """The days of what ran count by label from then on, once everything is charged."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        rows.lifetime(connection, rows.instance(connection, "vm-1"), NOW - timedelta(days=2), charged_to=None)
    rules = Rules({}, spend_labels=("experiment",))
    Reconciler(sqlite_database, FakeCloud({}), HandClock(NOW), list, rules, BELONGING).run()
    with sqlite_database.read() as connection:
        assert set(connection.scalars(select(label_days.c.label))) == {"experiment"}
        assert connection.scalar(select(func.count()).select_from(label_days)) == 2


def test_a_project_that_cannot_be_recorded_does_not_stop_the_others(sqlite_database: Database) -> None:
    """Asking for a VM that is missing broke: that project is reported as failed, the other is recorded.

    Nothing is decided of its VMs: what the ledger holds of them may be over.
    """
    _reconciler(sqlite_database, FakeCloud({PROJECT: _look(PROJECT, 1)})).run()
    cloud = _Broken({PROJECT: observation(read="2026-11-03T00:09:00"), "third": _look("third", 3)})
    report = _reconciler(sqlite_database, cloud).run()
    assert [(one.project, one.error) for one in report.failed_projects] == [(PROJECT, "the resolver is gone")]
    assert _vms(sqlite_database) == 2
    reasons = {decision.key.project: decision.reason for decision in report.plan.decisions}
    assert reasons[PROJECT].startswith("not known")
    assert reasons["third"].startswith("running for")


def test_a_project_that_cannot_be_read_keeps_its_vms(sqlite_database: Database) -> None:
    """Permission is lost: its VM goes on in the ledger, and the plan says that nothing is known."""
    cloud = FakeCloud({PROJECT: _look(PROJECT, 1), OTHER: _look(OTHER, 2)})
    reconciler = _reconciler(sqlite_database, cloud)
    reconciler.run()
    lost = Unread("project", "grant the role", "permission")
    cloud.observations[PROJECT] = observation(
        read="2026-11-03T00:09:30", instances_complete=False, operations_through_at=None, unread=(lost,)
    )
    report = reconciler.run()
    reasons = {decision.key.project: decision.reason for decision in report.plan.decisions}
    assert reasons[PROJECT].startswith("not known")
    assert reasons[OTHER].startswith("running for")
    with sqlite_database.read() as connection:
        assert connection.execute(select(func.count()).where(lifetimes.c.ended_at.is_(None))).scalar_one() == 2


def test_nothing_is_decided_of_a_project_whose_replica_looked_too_long_ago(sqlite_database: Database) -> None:
    """A pass decides on what another replica recorded, up to an age; its own projects it looks at itself."""
    other = ShardKeeper(sqlite_database, "other", lambda: [OTHER])
    _reconciler(sqlite_database, FakeCloud({OTHER: _look(OTHER, 2)})).look(other)
    clock = HandClock(NOW + timedelta(minutes=1))
    mine = {PROJECT: replace(_look(PROJECT, 1), read_at=clock.now())}
    rules, watched = Rules({}), (PROJECT, OTHER)
    reconciler = Reconciler(sqlite_database, FakeCloud(mine), clock, lambda: watched, rules, BELONGING)
    shards = ShardKeeper(sqlite_database, "one", lambda: watched)

    def decided() -> dict[str, str]:
        plan = reconciler.run(shards=shards).plan
        return {decision.key.project: decision.reason for decision in plan.decisions}

    assert all(reason.startswith("running for") for reason in decided().values())
    clock.advance(timedelta(minutes=1))
    later = decided()
    assert later[OTHER].startswith("not known")
    assert later[PROJECT].startswith("running for")


def test_a_locked_database_is_told_and_the_next_pass_records_all(sqlite_url: str) -> None:
    """The error says who to look for; what was seen is seen again."""
    with closing(Database.open(sqlite_url, lock_timeout=timedelta(milliseconds=20))) as database:
        reconciler = _reconciler(database, FakeCloud({PROJECT: _look(PROJECT, 1)}))
        with closing(Database.open(sqlite_url)) as other, other.write(), pytest.raises(StoreError, match="fuser"):
            reconciler.run()
        assert _vms(database) == 0
        reconciler.run()
        assert _vms(database) == 1


def test_a_full_disk_loses_nothing_that_was_recorded(sqlite_database: Database) -> None:
    """A pass that does not fit is undone whole; the one after space was made records it."""
    cloud = FakeCloud({PROJECT: _look(PROJECT, 1)})
    reconciler = _reconciler(sqlite_database, cloud)
    reconciler.run()
    fleet = [seen(key=InstanceKey(PROJECT, str(n)), name=f"vm-{n}", labels={"x": "y" * 2000}) for n in range(1, 200)]
    cloud.observations[PROJECT] = observation(*fleet, read="2026-11-03T00:09:30")
    with sqlite_database.write() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {pages + 2}"))
    with pytest.raises(StoreError, match="Free space"):
        reconciler.run()
    with sqlite_database.write() as connection:
        connection.execute(text("PRAGMA max_page_count = 1000000"))
    assert _vms(sqlite_database) == 1
    reconciler.run()
    assert _vms(sqlite_database) == 199


def test_a_daemon_that_was_replaced_writes_nothing(database: Database) -> None:
    """It slept, another took the lease, and then it wakes in mid-pass."""
    cloud = FakeCloud({PROJECT: _look(PROJECT, 1)})
    old = leases.acquire(database, "daemon", "old", timedelta(seconds=-1))
    assert leases.acquire(database, "daemon", "new", timedelta(minutes=1)) is not None
    before = ledger_rows(database)
    with pytest.raises(LeaseLost, match="new"):
        _reconciler(database, cloud).run(old)
    assert ledger_rows(database) == before


def test_a_pass_that_is_stopped_finishes_what_it_writes(sqlite_database: Database) -> None:
    """The one project is recorded, the others wait for the next pass, and nothing is charged or decided."""
    stop = threading.Event()
    first_recorded = threading.Event()

    class Slow(FakeCloud):
        def observe(self, project: str, operations_since: datetime | None) -> Observation:
            if project != PROJECT:
                assert first_recorded.wait(30)
            return super().observe(project, operations_since)

    def on_commit(_connection: object) -> None:
        stop.set()
        first_recorded.set()

    cloud = Slow({PROJECT: _look(PROJECT, 1), OTHER: _look(OTHER, 2)})
    with _on(sqlite_database, "commit", on_commit):
        report = _reconciler(sqlite_database, cloud).run(stop=stop)
    assert report.interrupted
    assert (report.charged, report.plan.decisions, _vms(sqlite_database)) == (None, (), 1)
    assert not _reconciler(sqlite_database, cloud).run().interrupted
    assert _vms(sqlite_database) == 2


class _Crash(BaseException):
    """The process dies: nothing may catch this."""


def test_a_pass_killed_at_any_statement_leaves_the_same_ledger(sqlite_template: Path, tmp_path: Path) -> None:
    """The next pass comes to what one whole pass comes to, whichever statement or commit is the last."""

    before = tmp_path / "before.db"
    shutil.copy(sqlite_template, before)
    with closing(Database.open(f"sqlite:///{before}")) as database:
        with database.write() as connection:
            prices.add(connection, _PRICES, NOW)
        _reconciler(database, FakeCloud(_first())).run()

    def books(name: str) -> Database:
        path = tmp_path / name
        shutil.copy(before, path)
        return Database.open(f"sqlite:///{path}")

    with closing(books("whole.db")) as whole:
        counted = _Countdown(10_000)
        _crash_in(whole, counted, lambda: _reconciler(whole, _second()).run())
        expected = ledger_rows(whole)
    assert all(expected.values())
    steps = 10_000 - counted.left
    assert steps > 30
    for step in range(0, steps, 5):
        with closing(books(f"{step}.db")) as database:
            with pytest.raises(_Crash):
                _crash_in(database, _Countdown(step), lambda: _reconciler(database, _second()).run())
            _reconciler(database, _second()).run()
            assert ledger_rows(database) == expected, f"killed at step {step} of {steps}"


class _Countdown:
    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, *_anything: object) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Crash


def _crash_in(database: Database, countdown: _Countdown, act: Callable[[], PassReport]) -> PassReport:
    with _on(database, "before_cursor_execute", countdown), _on(database, "commit", countdown):
        return act()


@contextmanager
def _on(database: Database, what: str, hear: Callable[..., None]) -> Iterator[None]:
    engines = {database._engine, database._reader}
    for engine in engines:
        event.listen(engine, what, hear)
    try:
        yield
    finally:
        for engine in engines:
            event.remove(engine, what, hear)


def _first() -> dict[str, Observation]:
    early = observation(
        *(seen(key=InstanceKey(PROJECT, str(n)), name=f"vm-{n}") for n in range(3)), read="2026-11-02T11:00:00"
    )
    return {PROJECT: early}


def _second() -> FakeCloud:
    """Makes the second look: one VM stopped, one is gone, one runs past midnight, and one is new."""
    stopped = seen(Status.STOPPED, key=InstanceKey(PROJECT, "0"), name="vm-0", fingerprint="s", last_stopped_at="12:01")
    runs = seen(key=InstanceKey(PROJECT, "1"), name="vm-1")
    new = seen(key=InstanceKey(PROJECT, "4"), name="vm-4", started="13:00", created_at="12:59")
    operations = (
        operation("stop", "12:00", "12:01", target_id="0", target_name="vm-0", operation_id="1"),
        operation("delete", "12:30", "12:32", target_id="2", target_name="vm-2", operation_id="2"),
    )
    return FakeCloud({PROJECT: observation(stopped, runs, new, read="2026-11-03T00:09:00", operations=operations)})


_PRICES = [
    Price(PriceKey(resource, "us-central1", ProvisioningModel.STANDARD), unit, Money.of(1).nanos, at("00:00"), "test")
    for resource, unit in (
        ("a2:core", Unit.HOUR),
        ("a2:ram", Unit.GIB_HOUR),
        ("gpu:nvidia-tesla-a100", Unit.HOUR),
        ("disk:pd-balanced", Unit.GIB_MONTH),
    )
]


def test_a_project_taken_out_of_the_settings(database: Database) -> None:
    """The account ends with the last look, reported once; put back, what runs goes on from where it was."""
    cloud = FakeCloud({PROJECT: _look(PROJECT, 1), OTHER: _look(OTHER, 2)})
    _reconciler(database, cloud).run()

    def runs() -> dict[str, tuple[datetime | None, bool]]:
        query = select(instances.c.project, lifetimes.c.ended_at, lifetimes.c.end_is_estimate).join(
            lifetimes, lifetimes.c.instance_id == instances.c.id
        )
        with database.read() as connection:
            return {project: (ended_at, estimate) for project, ended_at, estimate in connection.execute(query)}

    for _ in range(2):
        _reconciler(database, cloud, PROJECT).run()
    assert runs() == {PROJECT: (None, False), OTHER: (at("2026-11-03T00:09:00"), True)}
    with database.read() as connection:
        kinds = [stored.event.kind for stored in audit_log.read(connection, project=OTHER)]
        assert [look.project for look in projects.read_all(connection)] == [PROJECT]
    assert kinds.count("ProjectUnwatched") == 1
    assert "InstanceGone" not in kinds
    cloud.observations[OTHER] = replace(_look(OTHER, 2), read_at=NOW)
    _reconciler(database, cloud).run()
    assert runs() == {PROJECT: (None, False), OTHER: (None, False)}
