"""Places are ordered for the next VM."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.jobs.jobbed import MINUTE, NOW, ON_DEMAND, RECIPE, SPOT, A, B, C, ended, no_room, view

from costguard.jobs.decide.buy.placement import (
    LaunchPlace,
    PlaceEvent,
    lost_zone,
    places,
    scores,
    with_advice,
)
from costguard.model.attempt import Outcome
from costguard.model.instance import region_of
from costguard.model.launch import Quota, Recipe
from costguard.model.money import Money

RATES = {
    (A, SPOT): Money.of("0.32"),
    (B, SPOT): Money.of("0.20"),
    (C, SPOT): Money.of("0.25"),
    (A, ON_DEMAND): Money.of("0.90"),
    (B, ON_DEMAND): Money.of("0.80"),
    (C, ON_DEMAND): Money.of("0.70"),
}


def event(zone: str, outcome: Outcome = Outcome.STOCKOUT, ago: int = 0) -> PlaceEvent:
    return PlaceEvent(zone, "nvidia-tesla-t4", SPOT, outcome, NOW - ago * MINUTE)


def result(*history: PlaceEvent, recipe: Recipe = RECIPE, **given: object) -> list[LaunchPlace]:
    values = {"rates": RATES, "quotas": {}, "last_zone": "", "now": NOW, **given}
    return places(recipe, history=history, **values)  # type: ignore[arg-type]


def zones(some: list[LaunchPlace]) -> list[str]:
    return [item.zone for item in some]


def test_the_cheapest_zone_comes_first() -> None:
    """The price decides without history; the recipe's order where prices are the same."""
    assert zones(result()) == [B, C, A]
    assert zones(result(rates=dict.fromkeys(RATES, Money.of("0.20")))) == [A, B, C]


def test_fresh_stockouts_and_preemptions_make_a_zone_dearer() -> None:
    """A place's price rises by its penalty, and it says so."""
    hit = result(event(B))
    assert zones(hit) == [C, B, A]
    assert hit[1].reasons == ("$0.200 an hour", "1 stockout lately")
    assert zones(result(event(B, Outcome.PREEMPTED), event(B, Outcome.PREEMPTED), event(B))) == [C, A, B]


def test_what_happened_fades() -> None:
    """Stockouts within half an hour to half, preemptions within six; quota errors never count, nor what is old."""
    stored = scores(
        [
            event(A, ago=30),
            event(A, ago=60),
            event(B, Outcome.PREEMPTED, ago=360),
            event(C, Outcome.QUOTA),
            event(C, ago=60 * 49),
        ],
        NOW,
    )
    assert set(stored) == {(A, "nvidia-tesla-t4", SPOT), (B, "nvidia-tesla-t4", SPOT)}
    assert stored[A, "nvidia-tesla-t4", SPOT].stockouts == pytest.approx(0.75)
    assert stored[B, "nvidia-tesla-t4", SPOT].preemptions == pytest.approx(0.5)
    assert zones(result(event(B, ago=180))) == [B, C, A]


def test_the_zone_just_lost_comes_last() -> None:
    """A zone just lost is last however cheap; and it is still one of them."""
    hit = result(last_zone=B)
    assert zones(hit) == [C, A, B]
    assert "just lost there" in hit[-1].reasons


def test_a_zone_without_a_price_is_last_but_not_left_out() -> None:
    """It is only a price that is missing."""
    rates = {**RATES, (B, SPOT): None}
    hit = result(rates=rates)
    assert zones(hit) == [C, A, B]
    assert hit[-1].reasons == ("a price that is not known",)


def test_on_demand_follows_spot_where_it_is_allowed() -> None:
    """Every Spot place before any on-demand one, each kind by its own prices."""
    hit = result(recipe=replace(RECIPE, falls_back_to_on_demand=True))
    assert [(item.zone, item.provisioning_model) for item in hit] == [
        (B, SPOT),
        (C, SPOT),
        (A, SPOT),
        (C, ON_DEMAND),
        (B, ON_DEMAND),
        (A, ON_DEMAND),
    ]


@pytest.mark.parametrize(
    ("quotas", "passed_over"),
    [
        ((("NVIDIA_T4_GPUS", 4, 4), ("PREEMPTIBLE_NVIDIA_T4_GPUS", 4, 3)), False),
        ((("NVIDIA_T4_GPUS", 4, 0), ("PREEMPTIBLE_NVIDIA_T4_GPUS", 4, 4)), True),
        ((("NVIDIA_T4_GPUS", 4, 4), ("PREEMPTIBLE_NVIDIA_T4_GPUS", 0, 0)), True),
        ((("NVIDIA_T4_GPUS", 4, 3), ("PREEMPTIBLE_NVIDIA_T4_GPUS", 0, 0)), False),
        ((("NVIDIA_A100_GPUS", 0, 0),), False),
    ],
)
def test_a_region_without_quota_is_passed_over(quotas: tuple[tuple[str, float, float], ...], passed_over: bool) -> None:
    """Spot counts against the preemptible quota once that was granted, else the common one; unknown is no reason."""
    hit = result(quotas={"us-central1": {metric: Quota(metric, limit, used) for metric, limit, used in quotas}})
    by_zone = {item.zone: item.passed_over for item in hit}
    assert not by_zone[C]
    assert [bool(by_zone[A]), bool(by_zone[B])] == [passed_over, passed_over]
    if passed_over:
        assert zones(hit)[0] == C
        assert "of us-central1 is used up (4 of 4)" in by_zone[A]


def test_memory_is_part_of_the_metric_only_where_google_says_so() -> None:
    """An A100 with 80 GB has a quota of its own, an H100 the plain one."""
    for gpu, metric in (("nvidia-a100-80gb", "NVIDIA_A100_80GB_GPUS"), ("nvidia-h100-80gb", "NVIDIA_H100_GPUS")):
        quotas = {"us-east1": {metric: Quota(metric, 1, 1)}}
        recipe = replace(RECIPE, gpu_type=gpu, zones=(C,))
        assert places(recipe, RATES, (), quotas, "", NOW)[0].passed_over


def test_the_zone_just_lost_is_that_of_the_last_vm_there_was() -> None:
    """Stockouts since then change nothing; a crash is not the zone's fault."""
    preempted = ended(Outcome.PREEMPTED)
    assert lost_zone(view(preempted)) == A
    assert lost_zone(view(preempted, no_room(2, B))) == A
    assert lost_zone(view(preempted, ended(Outcome.CRASHED, 2))) == ""
    assert lost_zone(view()) == ""


def test_advice_ranks_places_of_which_nothing_was_seen() -> None:
    """Spot that can hardly be had costs half as much again; what the fleet saw counts before, and others stay."""
    seen = result(event(C, ago=600), recipe=replace(RECIPE, falls_back_to_on_demand=True))
    assert zones(seen) == [B, C, A, C, B, A]
    ranked = with_advice(RECIPE, seen, {region_of(B): 0.0, "us-east1": 1.0}, "")
    assert region_of(A) == region_of(B) != region_of(C) == "us-east1"
    assert zones(ranked) == [C, B, A, C, B, A]
    assert "Google rates it 0 % obtainable" in ranked[1].reasons
    assert ranked[3:] == seen[3:]
    fresh = result(event(C))
    assert with_advice(RECIPE, fresh, {"us-east1": 1.0}, "")[-1].score == fresh[-1].score


def test_advice_never_brings_a_place_back_that_is_passed_over() -> None:
    """A quota that is used up stays the last word."""
    full = [replace(place, passed_over="used up") if place.zone == B else place for place in result()]
    assert zones(with_advice(RECIPE, full, {region_of(B): 1.0}, ""))[-1] == B
