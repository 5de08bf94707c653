"""The guard lets some choices through, and replaces others."""

from __future__ import annotations

import pytest

from costguard.deadlines.guard import guarded, latest_safe_h
from costguard.deadlines.simple_policies import wished
from costguard.deadlines.situation import Act, HeldVM, Situation, Why, Zone

ZONES = (Zone("a", 1.0, True, 0.0), Zone("b", 0.5, None), Zone("c", 0.1, False, 1.0))


def situation(slack_h: float, held: HeldVM | None = None, on_demand_price: float | None = 3.0) -> Situation:
    """A job of 10 hours whose starts take half an hour and which is looked at every 6 minutes."""
    return Situation(10.0, 10.0 + slack_h, 0.5, 0.1, on_demand_price, ZONES, held)


READY_SPOT = HeldVM("spot", "a", 5.0)
READY_ON_DEMAND = HeldVM("on_demand", "a", 5.0)


@pytest.mark.parametrize(
    ("slack_h", "held", "wish", "act", "why"),
    [
        (0.60, None, Act.WAIT, Act.WAIT, Why.PLAN),
        (0.59, None, Act.WAIT, Act.START_ON_DEMAND, Why.GUARD),
        (1.00, None, Act.START_SPOT, Act.START_SPOT, Why.PLAN),
        (0.99, None, Act.START_SPOT, Act.START_ON_DEMAND, Why.GUARD),
        (0.49, None, Act.WAIT, Act.START_ON_DEMAND, Why.TOO_LATE),
        (0.00, READY_SPOT, Act.STAY, Act.STAY, Why.PLAN),
        (0.99, READY_SPOT, Act.START_SPOT, Act.STAY, Why.GUARD),
        (0.49, READY_SPOT, Act.START_ON_DEMAND, Act.STAY, Why.GUARD),
        (0.50, READY_SPOT, Act.START_ON_DEMAND, Act.START_ON_DEMAND, Why.PLAN),
        (0.00, READY_ON_DEMAND, Act.WAIT, Act.STAY, Why.GUARD),
        (0.99, READY_ON_DEMAND, Act.START_SPOT, Act.STAY, Why.GUARD),
        (1.00, READY_ON_DEMAND, Act.START_SPOT, Act.START_SPOT, Why.PLAN),
        (-0.1, READY_ON_DEMAND, Act.WAIT, Act.STAY, Why.TOO_LATE),
    ],
)
def test_guard_acts_at_the_last_safe_moment(slack_h: float, held: HeldVM | None, wish: Act, act: Act, why: Why) -> None:
    """Waiting needs a start's slack at the next decision, Spot two starts', and on-demand under way is kept."""
    choice = guarded(situation(slack_h, held), wished(situation(slack_h, held), wish, Why.PLAN, "a"))
    assert choice.act is act
    assert choice.why is why


def test_spot_vm_that_starts_too_slowly_gives_way_to_on_demand() -> None:
    """A start that takes longer than it may is given up while one on demand still fits."""
    slow = HeldVM("spot", "a", 0.45, start_left_h=0.2)
    assert guarded(situation(0.61, slow), wished(situation(0.61, slow), Act.STAY, Why.PLAN)).act is Act.STAY
    late = guarded(situation(0.55, slow), wished(situation(0.55, slow), Act.STAY, Why.PLAN))
    assert late.act is Act.START_ON_DEMAND


def test_wait_is_looked_at_again_before_it_would_be_too_late() -> None:
    """The choice stands until the last safe moment at most, however long a policy wishes to wait."""
    choice = guarded(situation(2.0), wished(situation(2.0), Act.WAIT, Why.PLAN, holds_h=24))
    assert choice.holds_h == pytest.approx(1.5)
    assert latest_safe_h(situation(2.0)) == pytest.approx(1.5)


def test_without_on_demand_the_cheapest_open_zone_is_taken_at_once() -> None:
    """Where no on-demand can be had, waiting is never safe: a zone that may be up is better than none."""
    for slack_h in (-1.0, 0.3, 5.0, 100.0):
        job = situation(slack_h, on_demand_price=None)
        choice = guarded(job, wished(job, Act.WAIT, Why.PLAN))
        assert choice.act is Act.START_SPOT
        assert choice.zone == "b"
        assert choice.why is Why.NO_ON_DEMAND


def test_without_on_demand_and_zones_there_is_only_waiting() -> None:
    """Nothing can be started then, and what runs is kept."""
    job = situation(0.3, on_demand_price=None)._replace(zones=(Zone("c", 0.1, False, 1.0),))
    assert guarded(job, wished(job, Act.START_ON_DEMAND, Why.PLAN)).act is Act.WAIT
    running = job._replace(held=READY_SPOT)
    assert guarded(running, wished(running, Act.WAIT, Why.PLAN)).act is Act.STAY
