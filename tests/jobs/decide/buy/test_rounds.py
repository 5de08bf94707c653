"""The search for a place: each once in a round, and rounds further and further apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import (
    HOUR,
    MINUTE,
    NOW,
    ON_DEMAND,
    PLACES,
    RECIPE,
    SPOT,
    TERMS,
    A,
    B,
    C,
    attempt,
    decided,
    ended,
    job,
    no_room,
    place,
    view,
)

from costguard.jobs.decide.actions import JobDecision, LaunchAttempt
from costguard.jobs.decide.recovery.ended_runs import wait
from costguard.model.attempt import Outcome
from costguard.model.job import JobState
from costguard.model.money import Money, Priced

ALL = (no_room(1, A), no_room(2, B), no_room(3, C))
BOTH = (*PLACES, place(A, ON_DEMAND, "1.50"))
FALLS_BACK = replace(RECIPE, falls_back_to_on_demand=True)


def asked(decision: JobDecision) -> tuple[str, Any] | None:
    result = [
        (action.zone, action.provisioning_model) for action in decision.actions if isinstance(action, LaunchAttempt)
    ]
    return result[0] if result else None


def test_a_zone_without_room_is_followed_by_the_next_at_once() -> None:
    """Stockouts and quotas alike; the reason tells what was tried."""
    for outcome, words in ((Outcome.STOCKOUT, "out of stock"), (Outcome.QUOTA, "no quota left")):
        decision = decided(view(no_room(1, A, outcome=outcome), of_job=job(JobState.QUEUED)))
        assert asked(decision) == (B, SPOT)
        (launch,) = decision.actions
        assert isinstance(launch, LaunchAttempt)
        assert launch.reason == f"{B}, Spot: ; {words} in 1 zone ({A})"


def test_after_all_zones_it_waits_and_says_until_when() -> None:
    """A new round begins with the best place."""
    decision = decided(view(*ALL, of_job=job(JobState.QUEUED)))
    until = NOW + wait(TERMS, "j1", 3, 1)
    assert (decision.state, decision.actions, decision.next_at) == (JobState.QUEUED, (), until)
    assert decision.reason.startswith(f"out of stock in 3 zones ({A}, {B} and {C}); asked again at 12:00 UTC")
    assert asked(decided(view(*ALL), until)) == (A, SPOT)
    assert asked(decided(view(*ALL, no_room(4, A, until)), until)) == (B, SPOT)


def test_each_round_waits_longer_than_the_one_before() -> None:
    """Doubled, up to a quarter of an hour, a little different for every attempt, and always the same for the same."""
    waits = [wait(TERMS, "j1", number, number) for number in range(1, 12)]
    for number, item in enumerate(waits, 1):
        whole = min(TERMS.first_wait * 2 ** (number - 1), TERMS.longest_wait)
        assert whole * 3 / 4 - timedelta(seconds=1) <= item <= whole * 5 / 4
    assert len({wait(TERMS, f"j{number}", 1, 6) for number in range(50)}) > 40
    twice = view(*ALL, *(no_room(number + 3, zone) for number, zone in enumerate((A, B, C), 1)))
    assert decided(twice).next_at == NOW + wait(TERMS, "j1", 6, 2)


def test_work_in_between_begins_the_search_anew() -> None:
    """A stockout before the last VM was found says nothing about now."""
    assert asked(decided(view(*ALL, ended(Outcome.PREEMPTED, 4)))) == (A, SPOT)


def test_a_place_that_opens_during_a_wait_is_taken_at_once() -> None:
    """Such as a zone whose quota was used up before."""
    closed = (place(A), place(B), place(C, passed_over="the quota X of us-east1 is used up (4 of 4)"))
    two = view(*ALL[:2])
    assert asked(decided(two, places=closed)) is None
    assert asked(decided(two)) == (C, SPOT)


def test_where_every_quota_is_used_up_it_waits_and_says_so() -> None:
    """Nothing is asked of Google but the quota."""
    used = tuple(replace(item, passed_over="the quota X of us-central1 is used up (4 of 4)") for item in PLACES)
    decision = decided(view(of_job=job(JobState.QUEUED)), places=used)
    assert (decision.actions, decision.next_at) == ((), NOW + 2 * MINUTE)
    assert decision.reason == ("waits: the quota X of us-central1 is used up (4 of 4); looked at again at 12:02 UTC")


def test_on_demand_comes_after_every_spot_zone() -> None:
    """Where the recipe falls back to it, the places hold it."""
    wanted = job(recipe=FALLS_BACK)
    assert asked(decided(view(*ALL[:2], of_job=wanted), places=BOTH)) == (C, SPOT)
    assert asked(decided(view(*ALL, of_job=wanted), places=BOTH)) == (A, ON_DEMAND)


def test_a_recipe_that_stays_on_spot_is_late_rather_than_dear() -> None:
    """The deadline stops nothing; that it has passed is in the reason."""
    wanted = job(deadline=at("11:00"), work=HOUR)
    assert asked(decided(view(of_job=wanted))) == (A, SPOT)
    assert decided(view(attempt(), of_job=wanted)).reason.endswith("; its deadline of 11:00 UTC has passed")


def test_the_ceiling_bounds_the_next_vm() -> None:
    """The bound is the amount left at that place's price; a place too expensive for ten minutes is no place."""
    wanted = job(ceiling=Money.of(10))
    spent = Priced(Money.of(9))
    (launch,) = decided(view(of_job=wanted, cost=spent)).actions
    assert isinstance(launch, LaunchAttempt)
    assert launch.max_run == 2 * HOUR
    dear = (place(A, rate="9"), place(B, rate=None), place(C, rate="1"))
    assert asked(decided(view(of_job=wanted, cost=spent), places=dear)) == (C, SPOT)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ((place(A, rate="9"),), "its ceiling of $10.00 leaves $1.00, which pays for less than 10 min at $9.00 an hour"),
        ((place(A, rate=None),), "no price is known in us-central1-a, so its ceiling could not be held"),
        ((), "its recipe names no zone"),
    ],
)
def test_a_ceiling_that_pays_for_no_vm_fails_the_job(places: Any, words: str) -> None:
    """The failure has the figures, and what to do."""
    decision = decided(view(of_job=job(ceiling=Money.of(10)), cost=Priced(Money.of(9))), places=places)
    assert (decision.state, decision.actions) == (JobState.FAILED, ())
    assert decision.reason.startswith(words)


def test_crashes_are_not_tried_again_at_once() -> None:
    """Each in a row waits longer; a preemption follows at once."""
    crashed = ended(Outcome.CRASHED, ended_at=NOW)
    decision = decided(view(crashed))
    assert decision.next_at == NOW + wait(TERMS, "j1", 1, 1)
    assert asked(decided(view(crashed), NOW + MINUTE)) == (A, SPOT)
    assert asked(decided(view(ended(Outcome.PREEMPTED, ended_at=NOW)))) == (A, SPOT)


def test_zone_that_google_names_as_having_room_is_asked_first() -> None:
    """A zone with room comes before cheaper ones that nobody knows anything about; the reason says why."""
    places = (place(A), place(B, rate="0.51"), place(C, rate="0.60"))
    decision = decided(view(no_room(1, A, zones_available=(C,))), places=places)
    assert asked(decision) == (C, SPOT)
    (launch,) = decision.actions
    assert isinstance(launch, LaunchAttempt)
    assert f"Google says that {C} has room" in launch.reason
    assert asked(decided(view(no_room(1, A)), places=places)) == (B, SPOT)


def test_named_zone_counts_for_the_same_kind_of_vm_and_for_the_last_answer_alone() -> None:
    """An answer about Spot says nothing of on-demand, and a zone that failed since is not asked again for it."""
    places = (place(A), place(B), place(A, ON_DEMAND, "0.90"), place(C, ON_DEMAND, "0.90"))
    tried = (no_room(1, A, zones_available=(B, C)), no_room(2, B))
    assert asked(decided(view(*tried), places=places)) == (A, ON_DEMAND)
