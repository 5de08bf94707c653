"""Shares of the projects: fair, the same for all who see the same numbers, and moved as little as may be."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from costguard.daemon.shares import change, share

_NAMES = [f"replica-{number}" for number in range(6)]


@st.composite
def fleets(draw: st.DrawFn) -> tuple[dict[str, int], int]:
    """Living replicas with the projects that each holds, and the number of all projects, some of which are free."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, unique=True))
    held = {name: draw(st.integers(0, 40)) for name in names}
    return held, sum(held.values()) + draw(st.integers(0, 60))


@given(fleets())
def test_shares_add_up_and_differ_by_at_most_one(fleet: tuple[dict[str, int], int]) -> None:
    """Each replica holds about as many projects, and no project is left out."""
    held, projects = fleet
    shares = [share(one, held, projects) for one in held]
    assert sum(shares) == projects
    assert max(shares) - min(shares) <= 1


@given(fleets())
def test_replica_hands_over_only_what_another_lacks(fleet: tuple[dict[str, int], int]) -> None:
    """The others claim just what is handed over and what is free: no project is left with nobody."""
    held, projects = fleet
    changes = {one: change(one, held, projects) for one in held}
    free = projects - sum(held.values())
    assert sum(one.claim for one in changes.values()) == free + sum(one.hand_over for one in changes.values())
    assert all(0 in one and min(one) >= 0 for one in changes.values())


@given(fleets())
def test_fair_shares_stay_as_they_are(fleet: tuple[dict[str, int], int]) -> None:
    """Replicas with fair shares claim nothing and hand over nothing."""
    held, projects = fleet
    fair = {one: share(one, held, projects) for one in held}
    assert all(change(one, fair, projects) == (0, 0) for one in fair)


@given(fleets(), st.lists(st.integers(0, 5), min_size=30, max_size=30))
def test_replicas_come_to_their_shares_one_by_one_in_any_order(
    fleet: tuple[dict[str, int], int], turns: list[int]
) -> None:
    """Each acts on what it sees at its turn; after each has had two, all shares are fair."""
    held, projects = fleet
    names = sorted(held)
    for name in [*(names[turn % len(names)] for turn in turns), *names, *names]:
        wanted = change(name, held, projects)
        free = projects - sum(held.values())
        held[name] += min(wanted.claim, free) - wanted.hand_over
        assert sum(held.values()) <= projects
    assert sum(held.values()) == projects
    assert max(held.values()) - min(held.values()) <= 1


def test_as_few_projects_as_possible_change_hands() -> None:
    """The larger shares stay with those that hold most, whatever their names."""
    held = {"b": 4, "a": 3}
    assert [change(one, held, 7) for one in held] == [(0, 0), (0, 0)]
    joined = {"b": 4, "a": 3, "c": 0}
    assert {one: change(one, joined, 7) for one in joined} == {"b": (0, 1), "a": (0, 1), "c": (2, 0)}


def test_lone_replica_claims_everything() -> None:
    """A single one holds all projects, and of two projects two of four replicas hold one each."""
    assert change("one", {"one": 0}, 500) == (500, 0)
    assert Counter(share(f"r{n}", dict.fromkeys(("r0", "r1", "r2", "r3"), 0), 2) for n in range(4)) == {1: 2, 0: 2}
