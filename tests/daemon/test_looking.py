"""Looks at many projects: in batches, with those that hang apart, and without real time."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from tests.builders import at, seen
from tests.fakes import FakeCloud, HandClock
from tests.reminders.last_check_setup import PRESET, RULES

from costguard.daemon.looking import Arrived, Looking
from costguard.daemon.reconcile import Reconciler
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey
from costguard.model.observation import Observation

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HANGS = 180.0  # seconds after which a look is given up


@dataclass
class Ground:
    """Projects whose looks take so many seconds, of a clock that only waiting moves."""

    takes: dict[str, float]
    parallel: int = 8
    now_s: float = 0.0
    begun: list[str] = field(default_factory=list)
    running: dict[str, tuple[float, Callable[[], None]]] = field(default_factory=dict)
    most_at_once: int = 0
    since: dict[str, datetime | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.looking = Looking(
            self._look, self.parallel, monotonic=lambda: self.now_s, start=self._start, take=self._take
        )

    def passed(
        self,
        projects: Sequence[str] | None = None,
        patience_s: float | None = 20.0,
        since: Mapping[str, datetime | None] | None = None,
    ) -> list[list[str]]:
        """Makes one pass, and returns the projects of each batch."""
        batches = self.looking.batches(projects or list(self.takes), since or {}, patience_s)
        return [[one.project for one in batch] for batch in batches]

    def _look(self, project: str, since: datetime | None) -> Observation:
        self.since[project] = since
        return Observation(project, NOW)

    def _start(self, project: str, run: Callable[[], None]) -> None:
        assert project not in self.running, "two looks at one project at once"
        self.begun.append(project)
        self.running[project] = (self.now_s + self.takes[project], run)
        self.most_at_once = max(self.most_at_once, len(self.running))

    def _take(self, arrivals: queue.SimpleQueue[Arrived], timeout_s: float | None) -> Arrived | None:
        if not arrivals.empty():
            return arrivals.get()
        until = None if not timeout_s else self.now_s + timeout_s + 1e-6  # a clock is never a rounding error short
        if timeout_s == 0:
            until = self.now_s
        first = min(self.running, key=lambda one: self.running[one][0], default=None)
        if first is None or (until is not None and self.running[first][0] > until):
            assert until is not None, "the pass waits for ever"
            self.now_s = until
            return None
        ends, run = self.running.pop(first)
        self.now_s = max(self.now_s, ends)
        run()
        return arrivals.get()


def _of(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:03}" for number in range(count)]


def test_each_project_comes_once_and_a_few_batches_hold_them_all() -> None:
    """All places are used; what comes close together is recorded together, in its order."""
    ground = Ground(dict.fromkeys(_of("p", 500), 0.001))
    batches = ground.passed()
    assert sorted(project for batch in batches for project in batch) == _of("p", 500)
    assert all(batch == sorted(batch) for batch in batches)
    assert len(batches) == 5
    assert ground.most_at_once == 8
    assert ground.looking.late == frozenset()


def test_a_slow_trickle_does_not_wait_for_a_full_batch() -> None:
    """A look that came is recorded a quarter of a second later, though other looks take seconds."""
    ground = Ground({"a": 0.1, "b": 0.2, "c": 5.0})
    assert ground.passed() == [["a", "b"], ["c"]]


def test_projects_that_hang_hold_up_no_other() -> None:
    """5 of 500 hang: the first pass waits for them once, later ones never; each comes with the pass it ends in."""
    hanging = _of("h", 5)
    ground = Ground(dict.fromkeys(hanging, HANGS) | dict.fromkeys(_of("p", 495), 0.1))
    seen = [project for batch in ground.passed() for project in batch]
    assert sorted(seen) == _of("p", 495)
    assert ground.now_s <= 495 * 0.1 / 3 + 20  # with three places left, and no longer than its patience
    assert ground.looking.late == frozenset(hanging)
    began = ground.now_s
    seen = [project for batch in ground.passed() for project in batch]
    assert sorted(seen) == _of("p", 495)
    assert ground.now_s - began < 495 * 0.1 / 8 + 1  # all eight places are for those that answer
    ground.now_s += HANGS
    seen = [project for batch in ground.passed() for project in batch]
    assert sorted(seen) == [*hanging, *_of("p", 495)]
    assert all(ground.begun.count(project) == 1 for project in hanging)


def test_a_project_that_answers_again_takes_its_place_again() -> None:
    """It is waited for as any other, after one look in time."""
    ground = Ground({"a": 0.1, "b": HANGS})
    assert ground.passed() == [["a"]]
    ground.now_s += HANGS
    ground.takes["b"] = 0.2
    assert ground.passed() == [["a", "b"]]  # the late one, whose end had come
    assert ground.passed() == [["a"]]  # begun apart: it was slow
    ground.now_s += 1
    assert ground.passed() == [["a", "b"]]
    assert ground.passed() == [["a", "b"]]
    assert ground.looking.late == frozenset()


def test_a_pass_that_would_have_nothing_waits() -> None:
    """Where the only project hangs, there is nothing to go on with."""
    ground = Ground({"a": HANGS})
    assert ground.passed() == [["a"]]
    assert ground.now_s == HANGS


def test_a_pass_that_nothing_follows_waits_for_all() -> None:
    """Every project is in it, however long it takes: it has no patience to lose."""
    ground = Ground({"a": 0.1, "b": HANGS})
    assert ground.passed(patience_s=None) == [["a"], ["b"]]


def test_where_all_hang_threads_are_bounded() -> None:
    """An outage of everything makes no thread for each of 500 projects, and what answered before is not lost."""
    ground = Ground({"p": 0.1} | dict.fromkeys(_of("h", 500), HANGS))
    seen = [project for batch in ground.passed() for project in batch]
    assert "p" in seen
    assert ground.most_at_once <= 32 + 8
    for _ in range(3):
        ground.passed()
    assert ground.most_at_once <= 32 + 8


def test_a_pass_that_is_left_off_leaves_the_rest_to_the_next() -> None:
    """No look that goes on is lost or begun twice, and a project that was not taken is looked at again."""
    ground = Ground(dict.fromkeys(_of("p", 300), 0.001))
    batches = ground.looking.batches(_of("p", 300), {}, 20.0)
    first = [one.project for one in next(batches)]
    batches.close()  # type: ignore[attr-defined]
    assert 100 <= len(first) < 100 + 8
    seen = [project for batch in ground.passed() for project in batch]
    assert sorted(seen) == _of("p", 300)


def test_a_project_that_is_not_watched_any_more_is_dropped() -> None:
    """The look ends later than its place in the settings, and is dropped."""
    ground = Ground({"a": 0.1, "b": HANGS})
    ground.passed()
    ground.now_s += HANGS
    assert ground.passed(["a"]) == [["a"]]
    assert ground.looking.late == frozenset()


def test_operations_are_read_from_where_each_project_was_read() -> None:
    """A project without a look before has all of them read."""
    ground = Ground({"a": 0.1, "b": 0.1})
    ground.passed(since={"a": NOW - timedelta(minutes=1)})
    assert ground.since == {"a": NOW - timedelta(minutes=1), "b": None}


@pytest.mark.parametrize("count", [0, 1])
def test_few_projects(count: int) -> None:
    """A pass over none ends at once."""
    looking = Looking(lambda project, _since: Observation(project, NOW), 8)
    assert sum(len(batch) for batch in looking.batches(_of("p", count), {}, 20.0)) == count


def test_a_pass_decides_nothing_about_a_project_that_hangs(sqlite_database: Database) -> None:
    """A VM may be gone meanwhile that is over its limit by the ledger. The others are recorded and decided about."""
    clock = HandClock(at("12:00"))
    looks = {
        project: Observation(project, clock.now(), (seen(key=InstanceKey(project, number)),))
        for project, number in (("one", "1"), ("two", "2"))
    }
    belonging = Belonging((PRESET,), OwnerRules())
    reconciler = Reconciler(sqlite_database, FakeCloud(looks), clock, lambda: list(looks), RULES, belonging)
    reconciler.run()
    ground = Ground({"one": 0.1, "two": HANGS})
    ground.looking._look = reconciler._looker._look
    reconciler._looker._looking = ground.looking
    for _ in range(2):
        report = reconciler.run(repeated=True)
        assert ([one.project for one in report.recorded], report.late) == (["one"], ("two",))
        assert {one.key.project: one.is_known for one in report.plan.decisions} == {"one": True, "two": False}
    ground.now_s += HANGS
    report = reconciler.run(repeated=True)
    assert ([one.project for one in report.recorded], report.late) == (["one", "two"], ())
    assert all(one.is_known for one in report.plan.decisions)


def test_a_late_look_is_decided_on_alone_when_it_has_ended(sqlite_database: Database) -> None:
    """No look begins between two passes, and nothing is decided of the others by what is old."""
    clock = HandClock(at("12:00"))
    looks = {
        project: Observation(project, clock.now(), (seen(key=InstanceKey(project, number)),))
        for project, number in (("one", "1"), ("two", "2"), ("three", "3"))
    }
    belonging = Belonging((PRESET,), OwnerRules())
    reconciler = Reconciler(sqlite_database, FakeCloud(looks), clock, lambda: list(looks), RULES, belonging)
    reconciler.run()
    ground = Ground({"one": 0.1, "two": HANGS, "three": 2 * HANGS})
    ground.looking._look = reconciler._looker._look
    reconciler._looker._looking = ground.looking
    reconciler.run(repeated=True)
    had_late = [reconciler.has_late]
    ground.now_s = 20.0 + HANGS
    ground.running.pop("two")[1]()
    had_late.append(reconciler.has_late)
    begun = list(ground.begun)
    report = reconciler.run(repeated=True, late_alone=True)
    assert ([one.project for one in report.recorded], report.late) == (["two"], ("three",))
    assert {one.key.project for one in report.plan.decisions if one.is_known} == {"two"}
    assert [*had_late, reconciler.has_late] == [False, True, False]
    assert ground.begun == begun
    report = reconciler.run(repeated=True)  # and the next pass goes on as ever
    assert ([one.project for one in report.recorded], report.late) == (["one"], ("three", "two"))
