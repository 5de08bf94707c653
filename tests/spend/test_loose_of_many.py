"""Loose things of an organisation: each project is asked once an hour, and one that hangs or refuses holds up none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from tests.fakes import HandClock
from tests.gce.conftest import Waits
from tests.waiting import until

from costguard.gce.client import ComputeCloud
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.model.instance import ProvisioningModel
from costguard.model.observation import LooseKind, LooseListing, LooseThing
from costguard.model.price import Price, PriceKey, Unit
from costguard.spend.loose.asking import EVERY, LooseAsking
from costguard.spend.loose.memory import AGAIN, LooseAnswer, LooseMemory
from costguard.spend.loose.report import UnknownWhy, alike
from costguard.spend.loose.things import LooseThings
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 2, 8, tzinfo=UTC)
ALL = [f"fleet-{number:03}" for number in range(500)]
ASKED, REFUSING, HANGING = ALL[:100], ALL[:50], ALL[50:55]
BOOK = PriceBook(
    [
        Price(
            PriceKey("static-ip", "us-central1", ProvisioningModel.STANDARD),
            Unit.HOUR,
            10_000_000,
            START - timedelta(days=1),
            "catalog",
        )
    ]
)
PATIENCE_S = 45.0
MINUTE = timedelta(minutes=1)


def address(project: str) -> LooseThing:
    return LooseThing(
        LooseKind.ADDRESS, project, "regions/us-central1", "spare", "static external address", START,
        resource="static-ip", region="us-central1", quantity=Fraction(1),
    )  # fmt: skip


@dataclass
class Fleet:
    """The simulated Compute Engine behind the real client; projects that hang do so until `over` is set."""

    source: Callable[[str], LooseListing]
    clock: HandClock = field(default_factory=lambda: HandClock(START))
    elapsed_s: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)
    hanging: set[str] = field(default_factory=lambda: set(HANGING))
    projects: list[str] = field(default_factory=lambda: list(ALL))
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.asking = LooseAsking(self.ask, lambda: self.projects, self.clock.now, monotonic=lambda: self.elapsed_s)
        rules = OwnerRules(domain="lab.example")
        self.things = LooseThings(self.asking.memory, lambda: self.projects, self.clock.now, rules, self.asking.ask)

    def ask(self, project: str) -> LooseListing:
        self.asked.append(project)
        if project in self.hanging:
            self.over.wait()
        return self.source(project)

    def turn(self, answers: int) -> None:
        """Takes a turn, and waits until so many projects were tried in all."""
        self.asking.turn()
        until(lambda: len(self.asking.memory.answers(ALL)) == answers)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    made = Fleet(lambda project: LooseListing(project, (address(project),)))
    yield made
    made.over.set()


def test_projects_that_refuse_and_that_hang_change_nothing_for_the_others(fleet: Fleet) -> None:
    """Things of 445 of 500 projects are listed; the other 55 are unknown once each, and in no amount.

    The first hundred are asked by the real client of the simulated Compute Engine, the others answer at once.
    """
    world = World(ManualClock(START), projects=ASKED)
    for project in ASKED:
        fields = {"status": "RESERVED", "addressType": "EXTERNAL"}
        world.belongings.append(Belonging("address", project, "us-central1", "spare", START, fields))
    for project in REFUSING:
        world.faults.add(kind="forbidden", project=project)
    with running(world) as url:
        cloud = ComputeCloud(url, ManualClock(START), wait=Waits())
        others = fleet.source
        fleet.source = lambda project: cloud.loose(project) if project in ASKED else others(project)
        fleet.turn(len(ALL) - len(HANGING))
        assert {one.project for one in fleet.things.report(BOOK).unknown_for(UnknownWhy.NOT_ASKED)} == set(HANGING)
        fleet.elapsed_s += PATIENCE_S
        fleet.turn(len(ALL))
        cloud.close()
    report = fleet.things.report(BOOK)
    assert len(report.items) == 445
    assert report.total.amount.dollars == 445 * 730 / 100
    assert not report.total.whole
    assert [one.project for one in report.unknown_for(UnknownWhy.REFUSED)] == REFUSING
    assert [one.project for one in report.unknown_for(UnknownWhy.LATE)] == HANGING
    assert report.unread == []
    assert [len(group.projects) for group in alike(report.unknown)] == [50, 5]


def test_each_project_is_asked_once_an_hour(fleet: Fleet) -> None:
    """A turn before that asks nobody; a project that a search found is asked with the next turn."""
    fleet.hanging.clear()
    fleet.projects = ALL[:3]
    fleet.turn(3)
    fleet.clock.advance(EVERY - MINUTE)
    fleet.projects = ALL[:4]
    fleet.turn(4)
    assert sorted(fleet.asked) == ALL[:4]
    fleet.clock.advance(MINUTE)
    fleet.asking.turn()
    until(lambda: len(fleet.asked) == 7)
    assert sorted(fleet.asked[4:]) == ALL[:3]


def test_what_is_watched_no_more_is_forgotten(fleet: Fleet) -> None:
    """Things of it are in no report."""
    fleet.hanging.clear()
    fleet.projects = ALL[:2]
    fleet.turn(2)
    fleet.projects = ALL[:1]
    fleet.asking.turn()
    assert [answer.project for answer in fleet.asking.memory.answers(ALL)] == ALL[:1]
    assert [item.thing.project for item in fleet.things.report(BOOK).items] == ALL[:1]


def test_late_project_keeps_its_last_things_and_is_asked_apart_from_then_on(fleet: Fleet) -> None:
    """They are shown with the age of their answer, and the project is unknown; an answer in time ends that."""
    fleet.hanging.clear()
    fleet.projects = ALL[50:60]
    fleet.turn(10)
    fleet.hanging.update(HANGING)
    fleet.clock.advance(EVERY)
    fleet.asking.turn()
    until(lambda: len(fleet.asked) == 20)
    fleet.elapsed_s += PATIENCE_S
    fleet.asking.turn()
    report = fleet.things.report(BOOK)
    assert len(report.items) == 10
    assert report.age == EVERY
    assert {one.project: one.read_at for one in report.unknown} == dict.fromkeys(HANGING, START)
    fleet.over.set()
    fleet.hanging.clear()
    until(lambda: not fleet.things.report(BOOK).unknown)
    fleet.clock.advance(EVERY)
    fleet.asking.turn()
    until(lambda: len(fleet.asked) == 30)
    until(lambda: fleet.things.report(BOOK).age == timedelta())


def test_a_fault_of_ours_costs_one_project_its_answer(fleet: Fleet) -> None:
    """The others are read, and the reason says where the trace is."""

    def source(project: str) -> LooseListing:
        if project == ALL[1]:
            raise KeyError("kind")
        return LooseListing(project, (address(project),))

    fleet.source, fleet.projects = source, ALL[:3]
    fleet.turn(3)
    report = fleet.things.report(BOOK)
    assert [item.thing.project for item in report.items] == [ALL[0], ALL[2]]
    (unknown,) = report.unknown
    assert (unknown.project, unknown.why) == (ALL[1], UnknownWhy.LATE)
    assert "log holds the trace" in unknown.reason


def test_a_user_who_wants_a_fresh_look_waits_for_it(fleet: Fleet) -> None:
    """Google is asked about one project or all, but where it answered a moment ago."""
    fleet.hanging.clear()
    fleet.projects = ALL[:3]
    fleet.things.refresh(within=MINUTE)
    assert len(fleet.things.report(BOOK).items) == 3
    fleet.things.refresh(within=MINUTE)
    assert len(fleet.asked) == 3
    fleet.clock.advance(AGAIN)
    fleet.things.refresh(ALL[1], within=MINUTE)
    assert fleet.asked[3:] == [ALL[1]]
    assert fleet.things.report(BOOK, ALL[1]).age == timedelta()
    assert fleet.things.report(BOOK).age == AGAIN


def test_a_look_that_comes_late_keeps_no_user_waiting(fleet: Fleet) -> None:
    """The report says of how many projects nothing has come yet."""
    fleet.projects = ALL[48:58]
    fleet.things.refresh(within=timedelta())
    until(lambda: len(fleet.things.report(BOOK).items) >= 3)
    report = fleet.things.report(BOOK)
    assert not report.total.whole
    assert report.projects == 10
    assert set(HANGING) <= {one.project for one in report.unknown_for(UnknownWhy.NOT_ASKED)}


def test_reader_gets_what_changed_since_it_last_read() -> None:
    """This is what goes over the wire: all at first, and then the projects that were tried again."""
    memory = LooseMemory()
    memory.put(*(LooseAnswer(project, START, LooseListing(project), START) for project in ALL))
    last, answers = memory.since(0)
    assert len(answers) == len(ALL)
    assert memory.since(last) == (last, [])
    memory.failed(ALL[7], START + MINUTE, "It did not answer.")
    newer, answers = memory.since(last)
    assert [(one.project, one.read_at, one.trouble) for one in answers] == [(ALL[7], START, "It did not answer.")]
    assert newer > last
