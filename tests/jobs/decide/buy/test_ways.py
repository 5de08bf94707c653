"""A job without a deadline is bought in the way that is expected to cost the least to its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.jobs.jobbed import A, B, place
from tests.jobs.list_prices import price_list
from tests.jobs.world import RECIPE, ZONES, world

from costguard.jobs.decide.buy.ways import WorkToBuy, by_expected_cost, may_choose, ways_of, ways_text
from costguard.ledger import prices
from costguard.model.buying import DEMAND, FLEX, RESERVED, SPOT, bought
from costguard.model.launch import Recipe
from costguard.model.money import Money

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
A100 = replace(bought(RECIPE, "cheapest"), machine_type="a2-highgpu-1g", max_run=20 * 24 * HOUR)
# Recorded on 2 August 2026, us-central1: ../shared/gcp-2026.md, section 3.
AUGUST = {SPOT: "1.92768", FLEX: "2.02038", DEMAND: "3.67363"}
JOB = WorkToBuy(26 * HOUR, 10 * MINUTE, 15 * MINUTE)


def rates(**changed: str) -> dict[tuple[str, object], Money | None]:
    return {(A, model): Money.of(changed.get(model.value, price)) for model, price in AUGUST.items()}


def test_an_a100_of_august_2026_is_cheaper_by_flex_start() -> None:
    """Spot costs 5 % less an hour, and more to the end, as it is lost; on demand costs 82 % more."""
    flex, spot, demand = ways_of(A100, rates(), JOB, {})  # type: ignore[arg-type]
    assert (flex.model, spot.model, demand.model) == (FLEX, SPOT, DEMAND)
    assert flex.low == flex.high == flex.expected == Money.of("52.87")  # 26 h and a start of 10 min at 2.02038
    assert demand.expected == Money.of("96.13")
    assert spot.low is not None
    assert spot.high is not None
    assert spot.expected is not None
    assert spot.low < flex.expected < spot.expected < spot.high
    assert ways_text((flex, spot, demand)).startswith("flex-start $52.87, Spot $50.")
    assert ways_text((flex, spot, demand)).endswith(", on demand $96.13")


def test_spot_comes_first_where_it_is_cheap() -> None:
    """October 2025's H100: flex-start .43 of on demand, Spot .24 to .32."""
    first = ways_of(A100, rates(spot="0.95"), JOB, {})[0]  # type: ignore[arg-type]
    assert first.model is SPOT


def test_work_that_is_never_saved_has_no_end_on_spot() -> None:
    """A month of work without a checkpoint outlasts every Spot VM: that way comes last, and says so."""
    ways = ways_of(A100, rates(), WorkToBuy(2000 * HOUR, 10 * MINUTE, None), {})  # type: ignore[arg-type]
    assert (ways[-1].model, ways[-1].expected, ways[-1].text) == (SPOT, None, "Spot without an end")


def test_what_has_no_price_is_left_out() -> None:
    """Unknown, and not cheap; without work, nothing is known."""
    only_demand = {(A, SPOT): None, (A, FLEX): None, (A, DEMAND): Money.of("3")}
    assert [way.model for way in ways_of(A100, only_demand, JOB, {})] == [DEMAND]
    assert ways_of(A100, rates(), replace(JOB, work=timedelta()), {}) == ()  # type: ignore[arg-type]
    assert ways_text(()) == ""


def test_places_are_tried_in_the_order_of_the_ways() -> None:
    """Places of one way stay in their order, each with the figures; what is passed over stays last."""
    places = [place(B, SPOT), place(A, SPOT), place(A, FLEX), place(B, FLEX, passed_over="used up"), place(A, DEMAND)]
    ways = ways_of(A100, rates(), JOB, {})  # type: ignore[arg-type]
    ordered = by_expected_cost(places, ways)
    assert [(one.zone, one.provisioning_model) for one in ordered] == [
        (A, FLEX), (B, SPOT), (A, SPOT), (A, DEMAND), (B, FLEX)
    ]  # fmt: skip
    assert all(one.reasons[-1].startswith("to its end flex-start $52.87, Spot $") for one in ordered)


@pytest.mark.parametrize(
    ("way", "chooses"), [("cheapest", True), ("spot", False), ("flex", False), ("reserved:x", False)]
)
def test_only_a_recipe_that_asks_for_it_chooses(way: str, chooses: bool) -> None:
    """The way that a person named is bought."""
    assert may_choose(bought(A100, way)) is chooses


def test_a_reservation_is_no_way_to_choose() -> None:
    """It is named, or not used."""
    assert RESERVED not in {way.model for way in ways_of(A100, rates(), JOB, {})}  # type: ignore[arg-type]


@pytest.mark.parametrize(("share", "model"), [(0.35, FLEX), (0.95, SPOT)])
def test_a_job_is_launched_in_the_way_that_costs_the_least(sqlite_url: str, share: float, model: object) -> None:
    """The real turn buys flex-start that costs little more than Spot, and none that costs as much as on demand."""
    with world(sqlite_url) as w:
        usual = [one for one in price_list() if one.key.provisioning_model is DEMAND]
        parts = [one for one in usual if one.key.resource.startswith(("n1:", "gpu:"))]
        flex = [
            replace(one, key=replace(one.key, provisioning_model=FLEX), rate_nanos=int(one.rate_nanos * share))
            for one in parts
        ]
        with w.database.write() as connection:
            prices.add(connection, flex, w.clock.now())
        w.submit(recipe=_sold(replace(bought(RECIPE, "cheapest"), zones=ZONES[:1])), work=20 * HOUR)
        w.until_up("cg-j1-1")
        (one,) = w.attempts()
        assert one.provisioning_model is model


def _sold(recipe: Recipe) -> Recipe:
    """N1 is not sold by flex-start; the world's cloud makes every type of the same parts."""
    return replace(recipe, machine_type="g2-standard-8")
