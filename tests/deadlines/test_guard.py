"""The guard lets some choices through, and replaces others."""

from __future__ import annotations

import pytest

from costguard.deadlines.guard import guarded, latest_safe_h
from costguard.deadlines.simple_policies import wished
from costguard.deadlines.situation import Act, FlexAsked, FlexOffer, HeldVM, Situation, Why, Zone

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


ASKED = FlexAsked(0.5)
STARTING = HeldVM("spot", "a", 0.1, start_left_h=0.4)
READY_FLEX = HeldVM("flex", "", 5.0)


@pytest.mark.parametrize(
    ("slack_h", "held", "waiting", "wish", "act"),
    [
        (0.60, None, None, Act.START_FLEX, Act.START_FLEX),
        (0.59, None, None, Act.START_FLEX, Act.START_ON_DEMAND),
        (0.60, None, ASKED, Act.START_FLEX, Act.WAIT),
        (0.60, None, ASKED, Act.WAIT, Act.WAIT),
        (0.59, None, ASKED, Act.WAIT, Act.START_ON_DEMAND),
        (0.59, None, ASKED, Act.DROP_FLEX, Act.START_ON_DEMAND),
        (0.50, READY_SPOT, None, Act.START_FLEX, Act.START_FLEX),
        (0.49, READY_SPOT, None, Act.START_FLEX, Act.STAY),
        (0.49, READY_SPOT, ASKED, Act.STAY, Act.DROP_FLEX),
        (0.50, READY_SPOT, ASKED, Act.STAY, Act.STAY),
        (0.50, READY_SPOT, None, Act.DROP_FLEX, Act.STAY),
        (0.60, STARTING, ASKED, Act.STAY, Act.STAY),
        (0.59, STARTING, ASKED, Act.STAY, Act.START_ON_DEMAND),
        (0.50, READY_ON_DEMAND, None, Act.START_FLEX, Act.START_FLEX),
        (0.49, READY_ON_DEMAND, None, Act.START_FLEX, Act.STAY),
        (0.49, READY_ON_DEMAND, ASKED, Act.WAIT, Act.DROP_FLEX),
        (0.00, READY_FLEX, None, Act.STAY, Act.STAY),
        (0.00, READY_FLEX, None, Act.WAIT, Act.STAY),
        (0.99, READY_FLEX, None, Act.START_SPOT, Act.STAY),
        (1.00, READY_FLEX, None, Act.START_SPOT, Act.START_SPOT),
    ],
)
def test_request_for_flex_start_is_open_only_while_its_grant_fits(
    slack_h: float, held: HeldVM | None, waiting: FlexAsked | None, wish: Act, act: Act
) -> None:
    """A request waits as a job without a VM does; with a VM, its grant takes the slack of a start at any moment."""
    offered = situation(slack_h, held)._replace(flex=FlexOffer(1.5), asked=waiting)
    assert guarded(offered, wished(offered, wish, Why.PLAN, "a")).act is act


@pytest.mark.parametrize(("slack_h", "act"), [(1.10, Act.START_FLEX), (1.09, Act.START_ON_DEMAND)])
def test_flex_start_that_ends_before_the_work_leaves_slack_for_what_follows(slack_h: float, act: Act) -> None:
    """A VM that ends after 10 h with 10 h of work and a start needs another start, on demand at the worst."""
    offered = situation(slack_h)._replace(flex=FlexOffer(1.5, longest_run_h=10.0))
    assert guarded(offered, wished(offered, Act.START_FLEX, Why.PLAN)).act is act


def test_flex_start_that_is_not_offered_is_not_asked_for() -> None:
    """A policy that asks all the same waits, or keeps its VM."""
    assert guarded(situation(2.0), wished(situation(2.0), Act.START_FLEX, Why.PLAN)).act is Act.WAIT
    held = situation(2.0, READY_SPOT)
    assert guarded(held, wished(held, Act.START_FLEX, Why.PLAN)).act is Act.STAY


def test_request_is_looked_at_again_before_its_grant_would_be_too_late() -> None:
    """The choice stands as long as waiting may last, or, with a VM that starts, as long as a grant fits."""
    alone = situation(2.0)._replace(flex=FlexOffer(1.5), asked=ASKED)
    assert guarded(alone, wished(alone, Act.WAIT, Why.PLAN, holds_h=24)).holds_h == pytest.approx(1.5)
    starting = situation(2.0, STARTING)._replace(flex=FlexOffer(1.5), asked=ASKED)
    assert guarded(starting, wished(starting, Act.STAY, Why.PLAN, holds_h=24)).holds_h == pytest.approx(1.5)


@pytest.mark.parametrize(("slack_h", "act"), [(1.10, Act.WAIT), (1.09, Act.STAY)])
def test_vm_is_not_left_for_a_request_whose_vm_would_end_too_early(slack_h: float, act: Act) -> None:
    """Waiting with a request takes the slack of its VM's start and of the next one, whatever was held before."""
    left = situation(slack_h, READY_FLEX)._replace(flex=FlexOffer(1.5, longest_run_h=10.0), asked=ASKED)
    choice = guarded(left, wished(left, Act.WAIT, Why.PLAN, holds_h=24))
    assert choice.act is act
    if act is Act.WAIT:
        assert choice.holds_h == pytest.approx(0.1)
