"""Flex-start in runs, in the optimum, in the plan and in what the planner does with it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.deadlines.markets import GAP_H, drawn_market, random_ups

from costguard.deadlines.expected import PricedZone, expected_cost
from costguard.deadlines.flex_plan import FLEX, GRANTED, granting_of, layer, solve_with_flex
from costguard.deadlines.hazards import PRIOR_PREEMPTIONS, Hazards, ZoneCounts, stationary_ages
from costguard.deadlines.optimum import optimum_costs
from costguard.deadlines.plan import IDLE, ON_DEMAND, SPOT, Chances, FlexInput, PlanInput, solve
from costguard.deadlines.planner import Planner
from costguard.deadlines.run import Task, replay_run
from costguard.deadlines.simple_policies import FlexAlone, Greedy, WithoutFlex, must_ask_next
from costguard.deadlines.situation import Act, FlexAsked, FlexOffer, HeldVM, Situation, Why, Zone
from costguard.deadlines.waits import SeenWait, Waits, counts_of_waits

FLEX_START = FlexOffer(1.5)
GRANTED_OFTEN = counts_of_waits([SeenWait(0.3, is_granted=True)] * 50)
LOST_OFTEN = ZoneCounts((400.0,) * 8, (200.0,) * 8)
CALM = ZoneCounts((0.0,) * 8, (2000.0,) * 8)
OFTEN = FlexOffer(1.5, GRANTED_OFTEN)


def test_request_waits_without_a_bill_and_its_vm_bills_from_its_grant() -> None:
    """Half an hour of waiting, a start of 0.2 h and two hours of work at 1.5."""
    task = Task(2.0, 6.0, 0.2, 3.0, flex=FLEX_START)
    result = replay_run(task, drawn_market("0" * 100), 0, FlexAlone(), lambda _point: 0.5)
    assert result.cost == pytest.approx(1.5 * 2.2)
    assert result.ended_h == pytest.approx(0.5 + 2.2)
    assert result.flex_h == pytest.approx(2.2)


def test_request_that_ends_in_vain_is_made_again_until_the_guard_acts() -> None:
    """Never granted: two hours and two hours again, and on demand at the last safe moment."""
    task = Task(2.0, 6.0, 0.2, 3.0, flex=FLEX_START)
    asked_at: list[int] = []

    def never(point: int) -> float | None:
        asked_at.append(point)
        return None

    result = replay_run(task, drawn_market("0" * 100), 0, FlexAlone(), never)
    assert asked_at == [0, 20]
    assert result.is_on_time
    assert result.ended_h == pytest.approx(6.0)
    assert result.cost == pytest.approx(3.0 * 2.2)


def test_grant_takes_over_from_the_spot_vm_that_ran_on_meanwhile() -> None:
    """Spot works while the request waits; then the flex-start VM starts, and the Spot VM is given up."""

    class Both:
        name = "both"

        def choose(self, situation: Situation) -> object:
            choice = Greedy().choose(situation)
            asks = situation.held is not None and situation.held.kind == "spot" and situation.asked is None
            return choice._replace(act=Act.START_FLEX if asks else choice.act, holds_h=0.0)

    task = Task(2.0, 9.0, 0.2, 3.0, flex=FLEX_START)
    result = replay_run(task, drawn_market("1" * 100), 0, Both(), lambda _point: 1.0)  # type: ignore[arg-type]
    assert result.spot_h == pytest.approx(1.1)
    assert result.flex_h == pytest.approx(0.2 + 2.0 - 0.9)
    assert result.preemptions == 0


def test_flex_start_vm_ends_at_its_age_with_its_work_saved() -> None:
    """VMs of an hour with starts of 0.2 h: three for two hours of work, the next one asked for while one runs."""
    task = Task(2.0, 6.0, 0.2, 3.0, flex=FlexOffer(1.5, longest_run_h=1.0))
    result = replay_run(task, drawn_market("0" * 100), 0, FlexAlone(), lambda _point: 0.0)
    assert result.is_on_time
    assert result.flex_h >= 2.0 + 3 * 0.2 - 1e-9


def test_next_vm_is_asked_for_so_early_that_it_can_be_ready() -> None:
    """A wait of 2 h and a start of half an hour take until 2.6 h before the end, if work is left after it."""
    base = Situation(10.0, 20.0, 0.5, 0.1, 3.0, (), HeldVM("flex", "", 165.3), flex=FLEX_START)
    assert not must_ask_next(base)
    late = base._replace(held=HeldVM("flex", "", 165.5))
    assert must_ask_next(late)
    assert not must_ask_next(late._replace(work_left_h=2.0))
    choice = Planner().choose(late)
    assert (choice.act, choice.why) == (Act.START_FLEX, Why.FLEX_ENDS)
    assert Planner().choose(late._replace(asked=FlexAsked(0.1))).act is Act.STAY


def problem(flex: FlexInput | None, works: int = 40, slacks: int = 30) -> PlanInput:
    chances = Chances(Hazards(), 0.5, stationary_ages(PRIOR_PREEMPTIONS))
    return PlanInput(0.5, 1.0, 0.25, 0.3, works, slacks, chances, flex=flex)


def test_plan_without_use_for_flex_start_is_the_plan_without_it() -> None:
    """Flex-start at five times the price of on demand leaves the tables of Spot, on demand and waiting as they are."""
    dear = solve_with_flex(problem(FlexInput(5.0, (0.5, 0.6), (0.0, 0.5, 2.0))))
    assert np.array_equal(dear.table[:, :, : IDLE.stop], solve(problem(None)).table)


def test_plan_with_time_to_spare_costs_flex_start_and_its_start() -> None:
    """Much slack, and Spot that costs as much as on demand: all of the work is done on one flex-start VM."""
    flex = FlexInput(0.4, (0.5, 0.6), (0.0, 0.5, 2.0))
    plan = solve_with_flex(problem(flex, slacks=120)._replace(spot_price=1.0))
    value = plan.value(IDLE, 12.0, 36.0)
    assert value == pytest.approx(np.full(value.shape, 0.4 * 12.25), rel=1e-3)
    assert plan.value(FLEX, 12.0, 36.0) == pytest.approx(np.full(16, 0.4 * 12.0))
    assert plan.value(GRANTED, 12.0, 36.0) == pytest.approx(np.full(16, 0.4 * 12.25))


def test_request_that_waits_is_never_worth_less_than_none() -> None:
    """It can be dropped, so no state with it costs more; flex-start makes nothing dearer."""
    plan = solve_with_flex(problem(FlexInput(0.55, (0.4, 0.8), (0.0, 0.5, 2.0))))
    without = solve(problem(None)).table
    for columns in (SPOT, ON_DEMAND, IDLE):
        assert (plan.table[:, :, columns] <= without[:, :, columns] + 1e-12).all()
        for age in range(2):
            assert (plan.table[:, :, layer(columns, age)] <= plan.table[:, :, columns] + 1e-12).all()


def test_chances_of_a_request_are_those_of_its_age() -> None:
    """A request, in any span, is granted, still young, or old; an old one is granted at the rate of old ones."""
    granting = granting_of(FlexInput(0.5, (0.2, 1.5), (0.0, 0.5, 2.0)), 0.3)
    assert granting.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert granting[0, 2] < granting[1, 2] == pytest.approx(1 - np.exp(-0.3 * 1.5), abs=0.08)


def situation(spot_price: float, counts: ZoneCounts, flex: FlexOffer | None, is_up: bool = True) -> Situation:
    """A job of 20 h with 10 h to spare, and a zone that came back or was lost two hours ago."""
    zones = (Zone("a", spot_price, is_up, 2.0, counts),)
    return Situation(20.0, 30.0, 0.3, 0.1, 3.0, zones, total_work_h=20.0, flex=flex)


@pytest.mark.parametrize(
    ("spot_price", "counts", "flex", "is_up", "act"),
    [
        (1.4, LOST_OFTEN, OFTEN, True, Act.START_FLEX),
        (0.5, CALM, OFTEN, True, Act.START_SPOT),
        (0.5, CALM, OFTEN, False, Act.WAIT),
        (1.6, CALM, OFTEN, False, Act.START_FLEX),
        (1.4, CALM, FlexOffer(2.9, GRANTED_OFTEN), True, Act.START_SPOT),
        (1.4, LOST_OFTEN, None, True, Act.START_SPOT),
    ],
)
def test_planner_asks_for_what_is_expected_to_cost_least(
    spot_price: float, counts: ZoneCounts, flex: FlexOffer | None, is_up: bool, act: Act
) -> None:
    """Flex-start at half of on demand beats Spot that is lost often, and gives way to Spot that is cheap and lasts."""
    assert Planner().choose(situation(spot_price, counts, flex, is_up)).act is act


def test_planner_lets_a_request_wait_and_goes_on_demand_when_there_is_no_more_time() -> None:
    """No VM and a request: it waits; with a start's slack alone, on demand."""
    waiting = situation(1.4, LOST_OFTEN, OFTEN, is_up=False)._replace(asked=FlexAsked(0.2))
    assert Planner().choose(waiting).act is Act.WAIT
    late = waiting._replace(time_left_h=20.35)
    assert Planner().choose(late).act is Act.START_ON_DEMAND


def test_planner_drops_a_request_that_it_no_longer_wants() -> None:
    """A grant would take over from a Spot VM that is cheap and lasts, at a higher price."""
    held = situation(0.5, CALM, OFTEN)._replace(held=HeldVM("spot", "a", 2.0), asked=FlexAsked(0.2))
    assert Planner().choose(held).act is Act.DROP_FLEX
    assert Planner().choose(held._replace(asked=None)).act is Act.STAY


def test_planner_keeps_a_flex_start_vm_but_for_spot_that_is_much_cheaper() -> None:
    """It stays where Spot costs nearly as much, and moves where it costs a third and lasts."""
    held = situation(1.49, CALM, OFTEN)._replace(held=HeldVM("flex", "", 2.0))
    assert Planner().choose(held).act is Act.STAY
    assert Planner().choose(held._replace(zones=(Zone("a", 0.4, True, 2.0, CALM),))).act is Act.START_SPOT


def test_planner_asks_while_it_runs_on_demand() -> None:
    """A VM on demand gives way to flex-start at half its price, where a start still fits."""
    held = situation(1.4, LOST_OFTEN, OFTEN, is_up=False)._replace(held=HeldVM("on_demand", "", 1.0))
    assert Planner().choose(held._replace(time_left_h=20.7)).act is Act.START_FLEX
    assert Planner().choose(held._replace(time_left_h=20.2)).act is Act.STAY
    assert Planner().choose(held).act is Act.WAIT  # it has time to wait without a VM


def test_spot_that_failed_too_often_leaves_flex_start() -> None:
    """A job whose Spot VMs were lost at once asks for a flex-start VM instead of one on demand."""
    failed = situation(1.4, CALM, OFTEN)._replace(overspent=0.33 * 20.0 * 3.0)
    assert Planner().choose(failed).act is Act.START_FLEX


def test_planner_without_flex_start_decides_as_it_did() -> None:
    """The policy that may have none runs as on a situation in which there is none."""
    random = Random(3)
    market = drawn_market(random_ups(random, 600, 1.0, 1.0), random_ups(random, 600, 0.6, 1.5))
    task = Task(6.0, 9.0, 0.13, 3.0)
    for start in range(0, 300, 60):
        alone = replay_run(task, market, start, Planner())
        offered = replay_run(task._replace(flex=FLEX_START), market, start, WithoutFlex(Planner(), "without"))
        assert alone == offered


def test_no_policy_beats_the_optimum_that_knows_the_waits() -> None:
    """The waits of each run are known in advance: nothing costs less, and flex-start makes the optimum cheaper."""
    random = Random(7)
    market = drawn_market(random_ups(random, 600, 1.0, 1.0))
    task = Task(6.0, 9.0, 0.13, 3.0, flex=FlexOffer(1.3))
    starts = [random.randrange(400) for _ in range(12)]
    lots = [lambda point, run=run: Waits().drawn(run, point) for run in range(12)]
    least = optimum_costs(task, market, starts, lots)
    assert sum(least) < sum(optimum_costs(task._replace(flex=None), market, starts)) - 1
    for start, wait_at, cost in zip(starts, lots, least, strict=True):
        for policy in (FlexAlone(), Planner(), Greedy()):
            assert replay_run(task, market, start, policy, wait_at).cost >= cost - 1e-6


def test_optimum_with_a_grant_at_once_costs_flex_start_alone() -> None:
    """No Spot at all, and a grant at the first point: the work and one start at its price."""
    task = Task(2.0, 4.0, 2 * GAP_H, 3.0, flex=FlexOffer(1.3))
    assert optimum_costs(task, drawn_market("0" * 60), [0])[0] == pytest.approx(1.3 * 2.2)
    never = optimum_costs(task, drawn_market("0" * 60), [0], [lambda _point: None])
    assert never[0] == pytest.approx(3.0 * 2.2)


def test_job_without_on_demand_asks_for_flex_start_where_no_spot_is() -> None:
    """No zone, or none with room: it asks, waits, and stays on what it gets."""
    alone = situation(1.4, CALM, OFTEN, is_up=False)._replace(on_demand_price=None)
    assert Planner().choose(alone).act is Act.START_FLEX
    assert Planner().choose(alone._replace(zones=())).act is Act.START_FLEX
    assert Planner().choose(alone._replace(asked=FlexAsked(0.2))).act is Act.WAIT
    assert Planner().choose(alone._replace(held=HeldVM("flex", "", 1.0))).act is Act.STAY
    assert Planner().choose(situation(1.4, CALM, OFTEN)._replace(on_demand_price=None)).act is Act.START_SPOT


@pytest.mark.parametrize(("spot_price", "slack_h", "act"), [(1.6, 10.0, Act.START_FLEX), (1.4, 10.0, Act.STAY)])
def test_job_on_spot_without_on_demand_asks_for_what_costs_no_more(spot_price: float, slack_h: float, act: Act) -> None:
    """Flex-start that is no dearer than its Spot VM is asked for while that runs, and always once a loss is a risk."""
    held = situation(spot_price, CALM, OFTEN)._replace(on_demand_price=None, held=HeldVM("spot", "a", 2.0))
    assert Planner().choose(held._replace(time_left_h=20.0 + slack_h)).act is act
    assert Planner().choose(held._replace(time_left_h=20.6)).act is Act.START_FLEX


def test_expected_cost_of_a_job_that_may_ask_for_flex_start() -> None:
    """A quote with flex-start costs less than without; one that has no zone has its waits and nothing else."""
    zones = [PricedZone("a", 1.4)]
    task = Task(10.0, 16.0, 0.2, 3.0)
    without = expected_cost(task, zones, Planner())
    both = expected_cost(task._replace(flex=FlexOffer(1.3)), zones, Planner())
    alone = expected_cost(task._replace(flex=FlexOffer(1.3)), [], Planner())
    assert without is not None
    assert both is not None
    assert alone is not None
    assert both.mean < without.mean
    assert alone.low == pytest.approx(1.3 * 10.2)
    assert both.late_share == alone.late_share == 0.0
    assert expected_cost(task, [], Planner()) is None
