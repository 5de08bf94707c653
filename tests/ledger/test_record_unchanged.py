"""Looks that say of unchanged VMs only that they are, against looks that show every VM whole."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, event, insert, select
from tests.builders import at, operation, seen
from tests.fakes import FakeCloud, HandClock

from costguard.access.rules import Rules
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import PassReport, Reconciler
from costguard.db import project_leases, tables
from costguard.db.lease import Lease
from costguard.db.migrate import upgrade
from costguard.db.transaction import Database
from costguard.gce.convert import fingerprinted
from costguard.ledger import lifetimes as ledger
from costguard.ledger import projects
from costguard.ledger.looks.record_unchanged import record_unchanged
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey, SeenInstance, Status
from costguard.model.observation import Observation, SeenOperation, UnchangedVm, Unread

ONE, TWO = "acme-one", "acme-two"
BELONGING = Belonging((), OwnerRules(domain="example.com"))


class World:
    """The VMs of a few projects, as Google has them."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.vms: dict[str, dict[str, SeenInstance]] = {ONE: {}, TWO: {}}
        self.operations: dict[str, list[SeenOperation]] = {ONE: [], TWO: []}
        self.refused: set[str] = set()
        self.unread_zones: frozenset[str] = frozenset()

    def put(self, project: str, number: int, **given: Any) -> None:
        key = InstanceKey(project, str(number))
        zone = "us-central1-a" if number % 2 else "us-east1-b"
        one = seen(key=key, name=f"vm-{number}", zone=zone, fingerprint="", **given)
        self.vms[project][key.gce_id] = fingerprinted(one)

    def look(self, project: str) -> Observation:
        now = self.clock.now()
        if project in self.refused:
            return Observation(project, now, (), False, unread=(Unread("project", "403", "permission"),))
        there = tuple(vm for vm in self.vms[project].values() if vm.zone not in self.unread_zones)
        unread = tuple(Unread(zone, "it did not answer", "unreachable") for zone in sorted(self.unread_zones))
        operations = tuple(self.operations[project][-3:])
        return Observation(project, now, there, True, self.unread_zones, operations, now, unread)


class WholeCloud(FakeCloud):
    """Shows every VM whole in each look."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.looks = 0

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        self.looks += 1
        look = self.world.look(project)
        self.gone = {str(number) for number in range(100)} - {*self.world.vms[ONE], *self.world.vms[TWO]}
        return look


class BriefCloud(WholeCloud):
    """Shows a VM whole once, and from then on only that it is unchanged."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.known: dict[InstanceKey, str] = {}

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        look = super().observe(project, operations_since)
        whole = tuple(vm for vm in look.instances if self.known.get(vm.key) != vm.fingerprint)
        same = [vm for vm in look.instances if self.known.get(vm.key) == vm.fingerprint]
        self.known |= {vm.key: vm.fingerprint for vm in whole}
        return replace(look, instances=whole, unchanged=tuple(map(_kept, same)))

    def forget(self, project: str, gce_ids: Collection[str]) -> None:
        for gce_id in gce_ids:
            self.known.pop(InstanceKey(project, gce_id), None)


def _kept(vm: SeenInstance) -> UnchangedVm:
    may_have_gpu = vm.shape.gpu_count > 0 or not vm.shape.is_known
    return UnchangedVm(vm.key.gce_id, vm.fingerprint, vm.zone, vm.status.bills_machine, may_have_gpu, None)


_TABLES = ("instances", "lifetimes", "storage_spans", "projects", "operations", "charges", "day_sums")


def _rows(database: Database) -> dict[str, list[Any]]:
    """All that the ledger holds, the events with it."""
    held = {}
    with database.read() as connection:
        for name in _TABLES:
            if (table := tables.metadata.tables.get(name)) is not None:
                held[name] = sorted(map(repr, connection.execute(select(table)).all()))
        columns = tables.events.c
        held["events"] = sorted(map(repr, connection.execute(select(columns.kind, columns.text, columns.gce_id)).all()))
    return held


def _reconciler(database: Database, cloud: FakeCloud, clock: HandClock, belonging: Belonging = BELONGING) -> Reconciler:
    return Reconciler(database, cloud, clock, lambda: [ONE, TWO], Rules({}), belonging, LookPace(1))


def _happens(world: World, chance: random.Random, project: str) -> None:
    """Does one thing, of those that change a VM, a list or nothing."""
    number = chance.randrange(1, 9)
    now = world.clock.now()
    what = chance.randrange(9)
    vm = world.vms[project].get(str(number))
    if what == 0:
        world.put(project, number, created_at=now, last_started_at=now, started=None)
    elif what == 1 and vm is not None:
        del world.vms[project][str(number)]
    elif what == 2 and vm is not None and vm.status is Status.RUNNING:
        world.put(project, number, status=Status.STOPPED, last_stopped_at=now.isoformat()[:19])
        done = operation("stop", now.isoformat()[:19], now.isoformat()[:19], project=project, target_id=str(number))
        world.operations[project].append(done)
    elif what == 3 and vm is not None:
        world.put(project, number, labels={"owner": chance.choice(["ana", "ben"])})
    elif what == 4:
        world.refused ^= {project}
    elif what == 5:
        world.unread_zones = frozenset() if world.unread_zones else frozenset({"us-east1-b"})
    elif what == 6 and vm is not None:  # an operation that changes nothing of the VM
        one = operation("setLabels", now.isoformat()[:19], now.isoformat()[:19], project=project, target_id=str(number))
        world.operations[project].append(one)


@pytest.mark.parametrize("seed", range(12))
def test_the_ledger_is_that_of_looks_that_show_all(tmp_path: Path, seed: int) -> None:
    """No row differs, whatever happens to VMs and lists, to the ledger behind our back, and to the process."""
    chance = random.Random(seed)
    clock = HandClock(at("12:00"))
    world = World(clock)
    for number in range(1, 6):
        world.put(ONE, number)
        world.put(TWO, number)
    urls = [f"sqlite:///{tmp_path / name}.db" for name in ("whole", "brief")]
    for url in urls:
        upgrade(url)
    with closing(Database.open(urls[0])) as first, closing(Database.open(urls[1])) as second:
        whole, brief = WholeCloud(world), BriefCloud(world)
        belonging = BELONGING
        for _ in range(25):
            for project in (ONE, TWO):
                _happens(world, chance, project)
            strange = chance.randrange(6)
            if strange == 0:  # a claim: it is to be accounted for again
                for database in (first, second):
                    with database.write() as connection:
                        ledger.account_again(connection, 1 + seed % 3)
            elif strange == 1:
                brief.known.clear()  # another process
            elif strange == 2:  # the rules that sort VMs change
                belonging = replace(belonging, owners=OwnerRules(domain=chance.choice(["example.com", "acme.example"])))
            reports = [
                _reconciler(database, cloud, clock, belonging).run()
                for database, cloud in ((first, whole), (second, brief))
            ]
            assert _summary(reports[1]) == _summary(reports[0])
            assert _rows(second) == _rows(first)
            clock.advance(timedelta(minutes=1))


def _summary(report: PassReport) -> list[tuple[object, ...]]:
    return [
        (one.project, one.seen, one.running, one.new_or_changed, one.absent, one.missing, one.unread, one.error)
        for one in sorted(report.recorded, key=lambda one: one.project)
    ]


def test_a_ledger_that_lost_a_vm_has_it_read_whole(database: Database) -> None:
    """A restored database does not hold what this process knows: one more look shows it, and the next none."""
    clock = HandClock(at("12:00"))
    world = World(clock)
    world.put(ONE, 1)
    world.put(ONE, 3)
    cloud = BriefCloud(world)
    _reconciler(database, cloud, clock).run()
    before = _rows(database)["instances"]
    with database.write() as connection:
        lost = select(tables.instances.c.id).where(tables.instances.c.gce_id == "3")
        for table in (tables.lifetimes, tables.storage_spans):
            connection.execute(delete(table).where(table.c.instance_id.in_(lost)))
        connection.execute(delete(tables.instances).where(tables.instances.c.gce_id == "3"))
    looks = []
    for _ in range(3):
        cloud.looks = 0
        _reconciler(database, cloud, clock).run()
        looks.append(cloud.looks)
    assert looks == [3, 2, 2]  # two projects, and one of them once more
    assert len(_rows(database)["instances"]) == len(before) == 2


@contextmanager
def _statements() -> Iterator[list[str]]:
    sent: list[str] = []

    def after(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    event.listen(Engine, "after_cursor_execute", after)
    try:
        yield sent
    finally:
        event.remove(Engine, "after_cursor_execute", after)


def _fleet(database: Database, projects: Collection[str], vms: int) -> tuple[FakeCloud, HandClock]:
    """Projects whose VMs are in the ledger, copies of one, and looks at which nothing is new."""
    clock = HandClock(at("12:00"))
    observations = {}
    for project in projects:
        one = seen(key=InstanceKey(project, "1"), name="vm")
        observations[project] = Observation(project, clock.now(), (one,), operations_through_at=clock.now())
    cloud = FakeCloud(observations)
    Reconciler(database, cloud, clock, lambda: list(projects), Rules({}), BELONGING, LookPace(1)).run()
    with database.write() as connection:
        for project in projects:
            table = tables.instances
            row = dict(connection.execute(select(table).where(table.c.project == project)).one()._mapping)
            del row["id"]
            copies = [{**row, "gce_id": str(number), "name": f"vm-{number}"} for number in range(2, vms + 1)]
            if copies:
                connection.execute(insert(table), copies)
    clock.advance(timedelta(minutes=1))
    for project in projects:
        same = [UnchangedVm(str(number), "f", "us-central1-a", True, True, None) for number in range(1, vms + 1)]
        cloud.observations[project] = Observation(
            project, clock.now(), operations_through_at=clock.now(), unchanged=tuple(same)
        )
    return cloud, clock


def _counted(database: Database, projects: Collection[str], vms: int) -> int:
    cloud, clock = _fleet(database, projects, vms)
    reconciler = Reconciler(database, cloud, clock, lambda: list(projects), Rules({}), BELONGING, LookPace(1))
    reconciler.run(repeated=True)  # what a process reads once
    with _statements() as sent:
        report = reconciler.run(repeated=True)
    assert sum(one.seen for one in report.recorded) == vms * len(projects)
    assert sum(one.new_or_changed for one in report.recorded) == 0
    return len(sent)


def test_an_unchanged_vm_costs_no_statement(database: Database) -> None:
    """A pass over 100 unchanged VMs and one over 10,000 send the same few statements."""
    _counted(database, [ONE], 1)  # what a process reads once
    _emptied(database)
    few = _counted(database, [ONE], 100)
    _emptied(database)
    assert few == _counted(database, [ONE], 10_000) <= 45


def test_an_unchanged_project_costs_no_statement(database: Database) -> None:
    """Sixty quiet projects are recorded in the statements of one; a hundred are one transaction at most."""
    names = [f"acme-{number:02}" for number in range(60)]
    few = _counted(database, names[:3], 2)
    _emptied(database)
    assert _counted(database, names, 2) <= few + 4


def _emptied(database: Database) -> None:
    with database.write() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            if table.name in {"instances", "lifetimes", "storage_spans", "projects"}:
                connection.execute(delete(table))


def test_quiet_looks_are_recorded_under_the_leases_that_are_held(sqlite_database: Database) -> None:
    """The project that another replica took over meanwhile is left to it."""
    cloud, clock = _fleet(sqlite_database, [ONE, TWO], 1)
    with sqlite_database.write() as connection:
        claimed = project_leases.claim(connection, "me", [ONE, TWO], 2, at("12:00") + timedelta(hours=1), at("12:00"))
    fences: dict[str, Lease | None] = {lease.name: lease for lease in claimed}
    with sqlite_database.write() as connection:
        project_leases.release(connection, "me", [lease for lease in claimed if lease.name == TWO], at("12:00"))
        project_leases.claim(connection, "other", [TWO], 1, at("12:00") + timedelta(hours=1), at("12:00"))
    looks = [cloud.observations[ONE], cloud.observations[TWO]]
    assert set(record_unchanged(sqlite_database, looks, BELONGING, fences)) == {ONE}
    with sqlite_database.read() as connection:
        tried = {look.project: look.last_tried_at for look in projects.read_all(connection)}
    assert tried[ONE] == clock.now()
    assert tried[TWO] < clock.now()
