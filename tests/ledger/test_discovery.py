"""Projects come and go in a simulated organisation: found late, refusing, deleted, and searched over broken pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select
from tests.gce.conftest import Waits

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db.tables import events, instances, lifetimes
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.ledger.discovery import rows
from costguard.ledger.discovery.rules import EVERY, WatchedProject, WatchScope
from costguard.ledger.discovery.watch import Discovery, WatchList
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ZONE = "us-central1-a"
ORG = "organizations/123456789012"


@dataclass
class Place:
    """A guard of a simulated organisation."""

    world: World
    database: Database
    cloud: ComputeCloud
    scope: WatchScope
    reconciler: Reconciler

    def minute(self) -> None:
        """A minute: a pass, after a search where one is due, as the daemon has them."""
        self.world.advance(MINUTE)
        discovery = Discovery(self.database, self.cloud, self.world.clock, self.scope)
        if discovery.is_due:
            discovery.run()
        self.reconciler.run()

    def minutes(self, count: int) -> None:
        for _ in range(count):
            self.minute()

    def watched(self) -> Sequence[str]:
        return WatchList(self.database, self.scope)()

    def row(self, project: str) -> WatchedProject:
        with self.database.read() as connection:
            return next(row for row in rows.read_all(connection) if row.project == project)

    def kinds(self, project: str) -> list[str]:
        """The events of a project that are not of one VM."""
        query = select(events.c.kind).where(events.c.project == project, events.c.gce_id == "").order_by(events.c.id)
        with self.database.read() as connection:
            return list(connection.scalars(query))

    def open_lifetimes(self, project: str) -> int:
        query = (
            select(lifetimes.c.id).join(instances).where(lifetimes.c.ended_at.is_(None), instances.c.project == project)
        )
        with self.database.read() as connection:
            return len(connection.execute(query).all())


@contextmanager
def _organisation(database: Database, projects: Sequence[str], scope: WatchScope | None = None) -> Iterator[Place]:
    world = World(ManualClock(START), projects=projects)
    scope = scope or WatchScope(places=(ORG,))
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=Waits())) as cloud:
        watched = WatchList(database, scope)
        belonging = Belonging((), OwnerRules())
        yield Place(
            world, database, cloud, scope, Reconciler(database, cloud, world.clock, watched, Rules({}), belonging)
        )


def _start(world: World, project: str, name: str = "vm") -> None:
    body: dict[str, Any] = {
        "name": name,
        "machineType": f"zones/{ZONE}/machineTypes/n1-standard-4",
        "disks": [{"boot": True, "initializeParams": {"diskSizeGb": "20"}}],
        "networkInterfaces": [{}],
    }
    world.insert(project, ZONE, body)


def test_a_project_is_watched_once_it_has_a_vm(database: Database) -> None:
    """The index shows it minutes later, the next search finds it, and its account goes back to the VM's start."""
    with _organisation(database, ["lab-one", "lab-two"]) as place:
        _start(place.world, "lab-one")
        place.minutes(5)
        assert place.watched() == ()  # the search came before the index had it
        place.minutes(10)
        assert place.watched() == ("lab-one",)
        assert place.kinds("lab-one") == ["ProjectFound"]
        with database.read() as connection:
            (started_at,) = connection.scalars(select(lifetimes.c.started_at))
        assert started_at - START < MINUTE
        _start(place.world, "lab-two")
        place.minutes(20)
        assert place.watched() == ("lab-one", "lab-two")


def test_a_project_that_searches_lose_is_kept_while_its_vm_runs(sqlite_database: Database) -> None:
    """An hour without a trace of it in the index changes nothing; once its VM is deleted it is let go, with history."""
    with _organisation(sqlite_database, ["lab-one"]) as place:
        _start(place.world, "lab-one")
        place.minutes(12)
        place.world.assets.hidden.add("lab-one")
        place.minutes(60)
        assert place.watched() == ("lab-one",)
        assert place.row("lab-one").missed == 6
        assert place.open_lifetimes("lab-one") == 1
        place.world.delete("lab-one", "vm")
        place.minutes(15)
        assert place.watched() == ()
        assert place.kinds("lab-one") == ["ProjectFound", "ProjectUnwatched"]
        with sqlite_database.read() as connection:
            (ended_at,) = connection.scalars(select(lifetimes.c.ended_at))
        assert ended_at is not None
        place.world.assets.hidden.clear()
        _start(place.world, "lab-one", "again")
        place.minutes(15)
        assert place.watched() == ("lab-one",)
        assert place.open_lifetimes("lab-one") == 1


def test_a_deleted_project_is_let_go_and_keeps_its_history(database: Database) -> None:
    """Google answers 404 and searches do not show it: its VM's account ends, and stays in the ledger."""
    with _organisation(database, ["lab-one", "lab-two"]) as place:
        for project in ("lab-one", "lab-two"):
            _start(place.world, project)
        place.minutes(12)
        place.world.faults.add("project_gone", project="lab-one")
        place.minute()
        assert place.watched() == ("lab-one", "lab-two")  # one answer is not enough
        place.world.assets.hidden.add("lab-one")
        place.minutes(40)
        assert place.watched() == ("lab-two",)
        assert (place.open_lifetimes("lab-one"), place.open_lifetimes("lab-two")) == (0, 1)
        assert place.row("lab-one").gone_because == "Google answers that the project is deleted"


def test_a_search_that_breaks_on_a_late_page_changes_nothing(sqlite_database: Database) -> None:
    """600 projects take two pages: while the second fails, all that are known stay watched and nobody is new."""
    names = [f"lab-{number:03}" for number in range(600)]
    with _organisation(sqlite_database, names) as place:
        for name in names[:5]:
            _start(place.world, name)
        place.world.advance(5 * MINUTE)
        discovery = Discovery(sqlite_database, place.cloud, place.world.clock, place.scope)
        discovery.run()
        before = place.watched()
        assert len(before) == 5
        place.world.faults.add("failing_page", page=2, path="searchAllResources")
        _start(place.world, "lab-599")
        place.world.assets.hidden.update(names[:5])
        for _ in range(5):
            place.world.advance(EVERY)
            discovery.run()
        assert place.watched() == before
        with sqlite_database.read() as connection:
            (searched,) = rows.places(connection)
            kinds = list(connection.scalars(select(events.c.kind).where(events.c.project == "")))
        assert (searched.failure_code, searched.failed_since) == ("unavailable", START + 15 * MINUTE)
        assert kinds == ["SearchFailed"]
        place.world.faults.clear()
        place.world.advance(EVERY)
        discovery.run()
        assert place.watched() == (*before, "lab-599")
        with sqlite_database.read() as connection:
            assert list(connection.scalars(select(events.c.kind).where(events.c.kind == "SearchResumed"))) != []


def test_a_project_that_refuses_is_told_once_and_asked_less_often(sqlite_database: Database) -> None:
    """An hour of 403s is one event and ten questions, and the other project is read at every pass."""
    with _organisation(sqlite_database, ["lab-one", "lab-two"]) as place:
        for project in ("lab-one", "lab-two"):
            _start(place.world, project)
        place.minutes(12)
        place.world.faults.add("forbidden", project="lab-one")
        counting = _Counting(place.cloud)
        place.reconciler._looker._cloud = counting  # the reconciler's own port, counted
        place.minutes(60)
        assert counting.projects.count("lab-two") == 60
        assert counting.projects.count("lab-one") == 10
        assert place.kinds("lab-one") == ["ProjectFound", "ReadingFailed"]
        row = place.row("lab-one")
        assert (row.refusal_code, row.refused_since) == ("permission", START + 13 * MINUTE)
        assert place.open_lifetimes("lab-one") == 1  # unknown is not gone
        place.world.faults.clear()
        place.minutes(11)
        assert place.kinds("lab-one") == ["ProjectFound", "ReadingFailed", "ReadingResumed"]
        assert place.row("lab-one").refused_since is None


class _Counting:
    """The cloud, and which projects were asked about."""

    def __init__(self, cloud: ComputeCloud) -> None:
        self._cloud = cloud
        self.projects: list[str] = []

    def observe(self, project: str, operations_since: datetime | None) -> Any:
        self.projects.append(project)
        return self._cloud.observe(project, operations_since)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)


def test_going_over_from_a_list_to_an_organisation_closes_nothing(sqlite_database: Database) -> None:
    """A project that was listed stays watched until the searches and its own look agree that it is empty."""
    listed = WatchScope(("lab-one", "lab-two"))
    with _organisation(sqlite_database, ["lab-one", "lab-two"], listed) as place:
        _start(place.world, "lab-one")
        place.minutes(3)
        place.scope = WatchScope(places=(ORG,))
        place.reconciler = Reconciler(
            sqlite_database,
            place.cloud,
            place.world.clock,
            WatchList(sqlite_database, place.scope),
            Rules({}),
            Belonging((), OwnerRules()),
        )
        place.reconciler.run()
        assert place.watched() == ("lab-one", "lab-two")
        place.minutes(45)
        assert place.watched() == ("lab-one",)
        assert place.open_lifetimes("lab-one") == 1


def test_what_is_excluded_is_left_at_once(sqlite_database: Database) -> None:
    """A person says so: its account ends with the last look, and searches do not bring it back."""
    with _organisation(sqlite_database, ["lab-one", "lab-two"]) as place:
        for project in ("lab-one", "lab-two"):
            _start(place.world, project)
        place.minutes(12)
        place.scope = WatchScope(places=(ORG,), exclude=("*-two",))
        place.reconciler = Reconciler(
            sqlite_database,
            place.cloud,
            place.world.clock,
            WatchList(sqlite_database, place.scope),
            Rules({}),
            Belonging((), OwnerRules()),
        )
        place.minutes(25)
        assert place.watched() == ("lab-one",)
        assert place.open_lifetimes("lab-two") == 0
        assert place.kinds("lab-two") == ["ProjectFound", "ProjectUnwatched"]


def test_a_number_without_an_id_is_told_once(sqlite_database: Database) -> None:
    """It cannot be watched under a number: the event says how to list it."""
    with _organisation(sqlite_database, ["lab-one"]) as place:
        place.world.assets.nameless.add("lab-one")
        _start(place.world, "lab-one")
        place.minutes(45)
        assert place.watched() == ()
        with sqlite_database.read() as connection:
            texts = list(connection.scalars(select(events.c.text).where(events.c.kind == "ProjectNotNamed")))
        assert len(texts) == 1
        assert "gcloud projects describe" in texts[0]


def test_folders_are_searched_by_themselves(sqlite_database: Database) -> None:
    """Projects below the folder are found, and no others; a folder that refuses does not end the others' search."""
    scope = WatchScope(places=("folders/7", "folders/8"))
    with _organisation(sqlite_database, ["lab-one", "lab-two", "lab-six"], scope) as place:
        place.world.assets.folders.update({"lab-one": "7", "lab-two": "8"})
        for project in ("lab-one", "lab-two", "lab-six"):
            _start(place.world, project)
        place.world.rights.withhold("folders/8", "cloudasset.assets.searchAllResources")
        place.minutes(14)
        assert place.watched() == ("lab-one",)
        with sqlite_database.read() as connection:
            assert [(one.place, one.failure_code) for one in rows.places(connection)] == [
                ("folders/7", ""),
                ("folders/8", "permission"),
            ]
        place.world.rights.restore()
        place.minutes(10)
        assert place.watched() == ("lab-one", "lab-two")
