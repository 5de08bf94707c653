"""VMs of which nothing says what they are: when and how often Google's history is asked, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import PROJECT, at, observation
from tests.fakes import FakeCloud, HandClock
from tests.ledger.heard_entries import Call, request
from tests.ledger.test_asset_request import disk, gone, vm
from tests.ledger.test_feed_record import BELONGING, DELETE, INSERT, hear, look, rows

from costguard.db.tables import instances, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.errors import PermissionDenied, RateLimited
from costguard.ledger.feed.late_answers import ASKED_AFTER, CALLS, LateAnswers
from costguard.model.observation import AssetAnswer, AssetState, Observation

LATER = timedelta(minutes=20)
STARTED = {"lastStartTimestamp": "2026-11-02T03:00:09.700-08:00"}


class Histories:
    """Knows some assets; each hundred names is one call."""

    def __init__(self, *states: AssetState) -> None:
        self.states = states
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.trouble: Exception | None = None
        self.most = 10_000  # names that it answers for

    def history(self, parent: str, names: Sequence[str], calls: int) -> AssetAnswer:
        self.asked.append((parent, tuple(names)))
        if self.trouble is not None:
            raise self.trouble
        answered = frozenset(list(names)[: self.most])
        return AssetAnswer(tuple(one for one in self.states if one.name in answered), answered, calls - 1)


@pytest.fixture
def watched(sqlite_database: Database) -> Database:
    look(sqlite_database, observation(read="10:00"))
    return sqlite_database


def task(database: Database, histories: Histories | None, clock: HandClock) -> LateAnswers:
    return LateAnswers(database, FakeCloud(), clock, BELONGING, histories)


def lost(database: Database) -> None:
    """Hears the last entries alone of a VM of 90 seconds."""
    hear(database, INSERT.last(at("11:00:10")), DELETE.last(at("11:02:10")))


def test_a_vm_whose_first_entry_was_lost_is_known_by_its_history(watched: Database) -> None:
    """It has its machine type, its disk and its address; the times are those of its entries."""
    lost(watched)
    histories = Histories(vm(**STARTED), gone("11:02:10"), disk())
    assert task(watched, histories, HandClock(at("11:03") + LATER)).run(None) == 1
    [record], [life] = rows(watched, instances), rows(watched, lifetimes)
    assert (record.machine_type, record.vcpus, life.machine_type) == ("n1-standard-8", 8, "n1-standard-8")
    assert (life.started_at, life.ended_at) == (at("11:00:10"), at("11:01:40"))
    assert {span.name: span.resource for span in rows(watched, storage_spans)}["vm-71"] == "disk:pd-balanced"
    assert [parent for parent, _ in histories.asked] == [f"projects/{PROJECT}"] * 2  # the VM, and then its disk


def test_what_is_known_is_asked_about_once(watched: Database) -> None:
    """The answer is kept: later turns ask nothing more."""
    lost(watched)
    clock, histories = HandClock(at("11:03") + LATER), Histories(vm(**STARTED), disk())
    turns = task(watched, histories, clock)
    assert [turns.run(None) for _ in range(3)] == [1, 0, 0]
    clock.advance(timedelta(hours=12))
    assert turns.run(None) == 0
    assert len(histories.asked) == 2


def test_assets_may_be_late_and_are_asked_for_three_times(watched: Database) -> None:
    """It is asked after ten minutes, an hour and six hours; a new process remembers; what stays unknown is unpriced."""
    lost(watched)
    clock, histories = HandClock(at("11:03")), Histories()
    for hours in range(4 * 24):
        clock.moment = at("11:03") + timedelta(minutes=15 * hours)
        assert task(watched, histories, clock).run(None) == 0
    assert len(histories.asked) == len(ASKED_AFTER)
    [life] = rows(watched, lifetimes)
    assert (life.machine_type, life.vcpus) == ("", 0)


def test_a_first_entry_that_comes_late_says_more(watched: Database) -> None:
    """Nothing was known of it by then; its own request is believed, and nothing is asked any more."""
    lost(watched)
    clock, histories = HandClock(at("11:03") + LATER), Histories()
    task(watched, histories, clock).run(None)
    hear(watched, INSERT.first(request()), at_="11:40")
    [life] = rows(watched, lifetimes)
    assert life.machine_type == "n1-standard-8"
    clock.advance(timedelta(hours=12))
    task(watched, histories, clock).run(None)
    assert len(histories.asked) == 1


def test_its_states_bound_a_run_where_operations_do_not(watched: Database) -> None:
    """Nothing came of the insert: it ran from its start stamp. The delete's own entries say until when."""
    hear(watched, DELETE.first(), DELETE.last(at("11:02:10")))
    assert rows(watched, lifetimes) == []
    histories = Histories(vm(**STARTED), gone("11:02:12"), disk())
    assert task(watched, histories, HandClock(at("11:03") + LATER)).run(None) == 1
    [life] = rows(watched, lifetimes)
    assert (life.started_at, life.ended_at) == (at("11:00:09.700"), at("11:01:40.500"))


def test_it_is_gone_when_its_history_says_so(watched: Database) -> None:
    """Nothing came of the delete: the state after its last one begins as it was gone."""
    hear(watched, INSERT.last(at("11:00:10")))
    task(watched, Histories(vm(**STARTED), gone("11:02:12"), disk()), HandClock(at("11:03") + LATER)).run(None)
    [record], [life] = rows(watched, instances), rows(watched, lifetimes)
    assert (record.gone_at, life.ended_at) == (at("11:02:12"), at("11:02:12"))


def test_without_histories_nothing_is_asked_and_nothing_is_made_up(watched: Database) -> None:
    """Where no organisation or folder is watched, nobody gave the right to read them."""
    lost(watched)
    assert task(watched, None, HandClock(at("11:03") + LATER)).run(None) == 0
    assert rows(watched, lifetimes)[0].machine_type == ""


@pytest.mark.parametrize(
    ("trouble", "again_after"),
    [
        (PermissionDenied("no right", "Grant it."), timedelta(minutes=10)),
        (RateLimited("too many", "Wait."), timedelta(seconds=30)),
    ],
)
def test_a_refusal_is_no_answer(
    watched: Database, trouble: PermissionDenied | RateLimited, again_after: timedelta
) -> None:
    """The VM stays untold and is asked about again, not at once: after ten minutes, or as long as Google says."""
    lost(watched)
    clock, histories = HandClock(at("11:03") + LATER), Histories(vm(**STARTED), disk())
    histories.trouble = trouble
    trouble.retry_after = again_after.total_seconds()
    turns = task(watched, histories, clock)
    assert turns.run(None) == 0
    clock.advance(again_after - timedelta(seconds=1))
    turns.run(None)
    assert len(histories.asked) == 1
    histories.trouble = None
    clock.advance(timedelta(seconds=2))
    assert turns.run(None) == 1


def test_a_turn_makes_no_more_calls_than_it_may(watched: Database) -> None:
    """Fifty projects have a lost entry each, and only folders are watched: a call for each, over some turns."""
    for number in range(50):
        name = f"project-{number:06d}"
        look(watched, _in_project(name))
        hear(watched, Call("insert", at("11:00"), str(500 + number), name).last(at("11:00:10")))
    histories = Histories()
    turns = task(watched, histories, HandClock(at("11:03") + LATER))
    counts = []
    for _ in range(4):
        before = len(histories.asked)
        turns.run(None)
        counts.append(len(histories.asked) - before)
    assert counts == [CALLS, CALLS, 10, 0]


def test_an_organisation_is_asked_at_once_for_all_its_projects(watched: Database) -> None:
    """The names of VMs of three projects go into one call."""
    for number in range(3):
        look(watched, _in_project(f"project-{number}"))
        hear(watched, Call("insert", at("11:00"), str(500 + number), f"project-{number}").last(at("11:00:10")))
    histories = Histories()
    turns = LateAnswers(
        watched, FakeCloud(), HandClock(at("11:03") + LATER), BELONGING, histories, lambda _project: "organizations/7"
    )
    turns.run(None)
    [(parent, names)] = histories.asked
    assert (parent, len(names)) == ("organizations/7", 3)


def test_what_is_not_answered_yet_is_asked_for_in_the_next_turn(watched: Database) -> None:
    """A name that a turn had no call left for counts as not asked."""
    lost(watched)
    histories = Histories(vm(**STARTED), disk())
    histories.most = 0
    turns = task(watched, histories, HandClock(at("11:03") + LATER))
    assert turns.run(None) == 0
    histories.most = 10_000
    assert turns.run(None) == 1


def _in_project(name: str) -> Observation:
    return replace(observation(read="10:00"), project=name)
