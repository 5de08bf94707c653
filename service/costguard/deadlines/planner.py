"""The planner: acts on the least expected cost, which a plan over work, slack and the age of zones gives it.

The plan is solved again when the hazards, the prices or the start overhead have changed by more than a few per cent;
such changes move its cost by far less. See `plan.py` for the programme and service/docs/deadlines.md for its figures.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING

from costguard.deadlines.guard import (
    guarded,
    has_slack_to_move,
    may_start_spot,
    may_wait,
)
from costguard.deadlines.hazards import (
    BINS,
    NO_COUNTS,
    PRIOR_PREEMPTIONS,
    PRIOR_RECOVERIES,
    ByAge,
    Hazards,
    TogetherCounts,
    hazards_of,
    stationary_ages,
)
from costguard.deadlines.simple_policies import wished
from costguard.deadlines.situation import Act, Choice, Situation, Why
from costguard.deadlines.spot_alone import on_spot_alone
from costguard.deadlines.weighing import DEAR_SPOT, Weighing

if TYPE_CHECKING:
    from costguard.deadlines.plan import FlexInput, Plan

STEPS_OF_WORK = 160  # that a job's work is planned in
LEAST_STEP_H = 0.1
MOST_SLACK_STEPS = 400
MOST_SLACK_STEPS_WITH_FLEX = 200  # as its tables have four times the columns
PRIOR_LOST = 4.0  # preemptions that the prior chance of another zone counts for
OTHER_ZONE_IS_UP = 0.5
CLOSE = 0.05  # relative change of a price that is planned for again
CLOSER = 0.01  # the same where flex-start, whose price may be close to that of Spot, is to be had
COARSE = 0.15  # the same, of hazards
YOUNG = 4  # age bins that are scaled together
# Of the cost of the whole work on demand: what VMs that were lost may cost in all beyond what their work is worth.
# After the first of them, Spot is started only where another start in vain still fits. Recorded series come nowhere
# near it; zones that are lost whenever they are used do.
MOST_OVERSPENT = 0.33
WAITING_SAVES = 0.02  # of the rest's cost: for less, nothing is waited for while Spot is to be had
PREEMPTION_WEIGHTS = stationary_ages(PRIOR_PREEMPTIONS)
RECOVERY_WEIGHTS = stationary_ages(PRIOR_RECOVERIES)
PLANS_KEPT = 256
MOST_KEPT = 256 << 20  # bytes; of a job with ten days of slack for two of work a plan has 36 MB


class Planner:
    """Keeps the plans that it has solved. `explains`: adds figures that only a sentence needs.

    `waiting_saves`: the least share of the rest's cost for which it waits while a Spot VM could be started.
    """

    name = "planner"

    def __init__(self, *, explains: bool = False, waiting_saves: float = WAITING_SAVES) -> None:
        self._explains = explains
        self._waiting_saves = waiting_saves
        self._plans: OrderedDict[object, Plan] = OrderedDict()
        self.kept = 0  # bytes, of the plans

    def choose(self, situation: Situation) -> Choice:
        return guarded(situation, self._wish(situation))

    def _wish(self, situation: Situation) -> Choice:
        held = situation.held
        if situation.work_left_h <= 0:
            if held is not None:
                return wished(situation, Act.STAY, Why.PLAN)
            situation = _with_some_work(situation)
        if situation.on_demand_price is None:
            return on_spot_alone(situation)
        payable = affordable(situation)
        if situation.flex is not None:
            return self._wish_with_flex(payable)
        if situation.zones and not payable.zones:
            return _without_more_spot(situation)
        situation = payable
        if held is not None and not self._explains:
            if held.kind == "spot" and (len(situation.zones) == 1 or not has_slack_to_move(situation)):
                return wished(situation, Act.STAY, Why.KEEP_SPOT, holds_h=situation.time_left_h)
            if held.kind == "on_demand" and not (may_start_spot(situation) or may_wait(situation)):
                return wished(situation, Act.STAY, Why.GUARD, holds_h=situation.time_left_h)
        plan = self._plan(situation)
        return Weighing(situation, plan, self._explains, self._waiting_saves).choice()

    def _wish_with_flex(self, situation: Situation) -> Choice:
        from costguard.deadlines.flex_weighing import FlexWeighing

        return FlexWeighing(situation, self._plan(situation), self._explains, self._waiting_saves).choice()

    def _plan(self, situation: Situation) -> Plan:
        from costguard.deadlines.flex_plan import solve_with_flex
        from costguard.deadlines.plan import Chances, PlanInput, solve  # NumPy takes 0.1 s to import

        assert situation.on_demand_price is not None
        whole_h = max(situation.work_left_h, situation.total_work_h or 0.0)
        slack_h = max(situation.slack_h, situation.elapsed_h + situation.time_left_h - whole_h)
        step_h = max(LEAST_STEP_H, whole_h / STEPS_OF_WORK)
        hazards, another_up = chances_of(situation)
        hazards = _coarse(hazards)
        found_ages = stationary_ages(hazards.preemption)
        most_slack = MOST_SLACK_STEPS if situation.flex is None else MOST_SLACK_STEPS_WITH_FLEX
        problem = PlanInput(
            _rounded(_spot_price(situation) / situation.on_demand_price, CLOSE if situation.flex is None else CLOSER),
            1.0,
            situation.start_h,
            step_h,
            max(1, math.ceil(whole_h / step_h - 1e-9)),
            min(most_slack, max(1, math.ceil(slack_h / step_h - 1e-9))),
            Chances(hazards, round(another_up, 1), found_ages),
            situation.loss_h,
            _flex_input(situation),
        )
        plan = self._plans.get(problem)
        if plan is None:
            solved = solve(problem) if problem.flex is None else solve_with_flex(problem)
            # Half as large, and exact to a millionth, where a plan's steps are good to a hundredth.
            plan = self._plans[problem] = solved._replace(table=solved.table.astype("float32"))
            self.kept += plan.table.nbytes
            while len(self._plans) > 1 and (len(self._plans) > PLANS_KEPT or self.kept > MOST_KEPT):
                self.kept -= self._plans.popitem(last=False)[1].table.nbytes
        self._plans.move_to_end(problem)
        return plan


def chances_of(situation: Situation) -> tuple[Hazards, float]:
    """The hazards of the zone that the job holds or would, and the chance of another when it is lost."""
    if not situation.zones and situation.flex is not None:
        return Hazards(recovery=(0.0,) * BINS), 0.0
    if len(situation.zones) == 1:
        return hazards_of(situation.zones[0].counts), 0.0
    together = situation.together or TogetherCounts(NO_COUNTS)
    prior = 1 - OTHER_ZONE_IS_UP ** (len(situation.zones) - 1)
    another_up = (sum(together.found_ages) + PRIOR_LOST * prior) / (together.lost + PRIOR_LOST)
    return hazards_of(together.held), another_up


def affordable(situation: Situation) -> Situation:
    """Keeps the zones alone in which a start in vain is still paid for, and the one whose Spot VM runs.

    The first start in vain is always paid for. A zone that has become cheap enough is used again.
    """
    if situation.overspent <= 0:
        return situation
    whole_h = max(situation.total_work_h or 0.0, situation.work_left_h)
    left = MOST_OVERSPENT * whole_h * (situation.on_demand_price or math.inf) - situation.overspent
    held = situation.held.zone if situation.held is not None and situation.held.kind == "spot" else None
    zones = tuple(
        zone
        for zone in situation.zones
        if zone.price * situation.start_h + zone.move_cost <= left or (zone.name == held and left >= 0)
    )
    return situation if len(zones) == len(situation.zones) else situation._replace(zones=zones)


def _without_more_spot(situation: Situation) -> Choice:
    """A Spot VM that runs may go on: its work costs less than that of another VM would."""
    held = situation.held
    if held is None:
        return wished(situation, Act.START_ON_DEMAND, Why.SPOT_FAILS)
    why = Why.KEEP_SPOT if held.kind == "spot" else Why.SPOT_FAILS
    return wished(situation, Act.STAY, why, holds_h=situation.time_left_h)


def _with_some_work(situation: Situation) -> Situation:
    """A job without a VM that is not over has something left to do, whatever was expected of it."""
    return situation._replace(work_left_h=LEAST_STEP_H, time_left_h=situation.time_left_h + LEAST_STEP_H)


def _spot_price(situation: Situation) -> float:
    held = situation.held
    zone = situation.zone(held.zone) if held is not None and held.kind == "spot" else None
    if zone is not None:
        return zone.price
    most = DEAR_SPOT * (situation.on_demand_price or math.inf)
    used = [zone for zone in situation.zones if zone.price <= most] or situation.zones
    zones = [zone for zone in used if zone.is_up is not False] or used
    return min((zone.price for zone in zones), default=situation.on_demand_price or 1.0)


@lru_cache(maxsize=4096)
def _coarse(hazards: Hazards) -> Hazards:
    """The prior, scaled for young and for old ages, in steps that hardly move the cost."""
    return Hazards(
        _scaled(hazards.preemption, PRIOR_PREEMPTIONS, PREEMPTION_WEIGHTS),
        _scaled(hazards.recovery, PRIOR_RECOVERIES, RECOVERY_WEIGHTS),
    )


def _scaled(hazard: ByAge, prior: ByAge, weights: ByAge) -> ByAge:
    scaled: list[float] = []
    for ages in (range(YOUNG), range(YOUNG, BINS)):
        ratio = sum(weights[age] * math.log(max(hazard[age], 1e-6) / prior[age]) for age in ages)
        scale = math.exp(round(ratio / sum(weights[age] for age in ages) / COARSE) * COARSE)
        scaled.extend(prior[age] * scale for age in ages)
    return tuple(scaled)


def _rounded(value: float, close: float) -> float:
    """Rounds to within a few per cent, so that plans are solved again for changes that matter alone."""
    return math.exp(round(math.log(value) / close) * close) if value > 0 else 0.0


def _flex_input(situation: Situation) -> FlexInput | None:
    """A VM that ends before the work does is followed by another, whose start costs a part of its hours."""
    from costguard.deadlines.flex_weighing import flex_input

    flex = situation.flex
    if flex is None or situation.on_demand_price is None:
        return None
    more = situation.start_h / flex.longest_run_h if situation.work_left_h > flex.longest_run_h else 0.0
    return flex_input(flex, _rounded(flex.price * (1 + more) / situation.on_demand_price, CLOSER))
