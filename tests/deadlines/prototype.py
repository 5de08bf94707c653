"""A plain reference for the planner: its published rule, with plans solved exactly and again every four hours.

Hazards by age drawn towards a prior; the zone with the least cost of an hour of work; a plan over work, slack and age;
the least of on-demand, Spot and waiting at each point. It rounds nothing and shares no plan between jobs: it is slow.
"""

from __future__ import annotations

import math

from costguard.deadlines.guard import guarded, may_start_spot, may_wait
from costguard.deadlines.hazards import BINS, bin_of, expected_life, hazards_of, stationary_ages
from costguard.deadlines.plan import IDLE, ON_DEMAND, SPOT, Array, Chances, Plan, PlanInput, solve
from costguard.deadlines.planner import chances_of
from costguard.deadlines.simple_policies import wished
from costguard.deadlines.situation import Act, Choice, Situation, Why, Zone

AGAIN_H = 4.0  # short jobs: half of it
SHORT_H = 20.0  # of work: half of the step, too
STEP_H = 0.2
DEAR_SPOT = 0.6  # of on-demand
CHEAPER = 0.95
MOST_SLACK_STEPS = 500


class Prototype:
    """The prototype of one job: it remembers its plan."""

    name = "prototype"

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._solved_h = math.nan

    def choose(self, situation: Situation) -> Choice:
        return guarded(situation, self._wish(situation))

    def _wish(self, situation: Situation) -> Choice:
        held, unit = situation.held, situation.on_demand_price
        assert unit is not None, "it knows nothing of jobs without on-demand"
        can_move = situation.slack_h >= 3 * situation.start_h and len(situation.zones) > 1
        if held is not None and held.kind == "spot" and not (can_move and held.is_ready):
            return wished(situation, Act.STAY, Why.KEEP_SPOT, holds_h=situation.interval_h)
        plan = self._planned(situation, unit)
        slack_price = _slack_price(situation, plan)
        up = [zone for zone in situation.zones if zone.is_up]
        best = _best([zone for zone in up if zone.price <= DEAR_SPOT * unit], situation, unit, slack_price)
        if held is not None and held.kind == "spot":
            running = situation.zone(held.zone)
            is_worth_it = (
                best is not None
                and running is not None
                and best.name != held.zone
                and _hourly(best, situation, unit, slack_price) < CHEAPER * running.price / unit
            )
            if is_worth_it and best is not None:
                return wished(situation, Act.START_SPOT, Why.CHEAPER_ZONE, best.name, situation.interval_h)
            return wished(situation, Act.STAY, Why.KEEP_SPOT, holds_h=situation.interval_h)
        return self._least(situation, plan, best)

    def _least(self, situation: Situation, plan: Plan, best: Zone | None) -> Choice:
        held, unit, start_h = situation.held, situation.on_demand_price or 1.0, situation.start_h
        work_h, slack_h, step_h = situation.work_left_h, situation.slack_h, plan.problem.step_h
        outages = [zone.age_h or 0.0 for zone in situation.zones if zone.is_up is False]
        state = bin_of(best.age_h or 0.0) if best is not None else BINS + bin_of(min(outages, default=0.0))
        if held is not None:
            after = plan.value(ON_DEMAND, work_h - min(step_h, work_h), slack_h - held.start_left_h)
            goes_on = held.start_left_h + min(step_h, work_h) + float(plan.stepping.any[state] @ after)
            options = [(goes_on, Act.STAY)]
        elif slack_h >= start_h:
            begun = plan.value(ON_DEMAND, work_h, slack_h - start_h)
            options = [(start_h + float(plan.starting.any[state] @ begun), Act.START_ON_DEMAND)]
        else:
            options = [(work_h + start_h, Act.START_ON_DEMAND)]
        if may_wait(situation):
            waited = plan.value(IDLE, work_h, slack_h - step_h)
            options.append((float(plan.stepping.any[state] @ waited), Act.WAIT))
        if best is not None and may_start_spot(situation):
            options.append((_started(best, plan, work_h, slack_h, unit), Act.START_SPOT))
        _, act = min(options, key=lambda option: option[0])
        zone = best.name if act is Act.START_SPOT and best is not None else None
        return wished(situation, act, Why.PLAN, zone, situation.interval_h)

    def _planned(self, situation: Situation, unit: float) -> Plan:
        is_short = (situation.total_work_h or situation.work_left_h) < SHORT_H
        again_h = AGAIN_H / 2 if is_short else AGAIN_H
        if self._plan is None or situation.elapsed_h - self._solved_h >= again_h:
            hazards, another_up = chances_of(situation)
            step_h = STEP_H / 2 if is_short else STEP_H
            self._solved_h = situation.elapsed_h
            self._plan = solve(
                PlanInput(
                    min(zone.price for zone in situation.zones) / unit,
                    1.0,
                    situation.start_h,
                    step_h,
                    max(1, math.ceil(situation.work_left_h / step_h)),
                    min(MOST_SLACK_STEPS, max(1, math.ceil(situation.slack_h / step_h))),
                    Chances(hazards, another_up, stationary_ages(hazards.preemption)),
                    situation.loss_h,
                )
            )
        return self._plan


def _started(zone: Zone, plan: Plan, work_h: float, slack_h: float, unit: float) -> float:
    start_h, state = plan.problem.start_h, bin_of(zone.age_h or 0.0)
    survives = float(plan.starting.stay[state].sum())
    begun = plan.starting.stay[state] @ plan.value(SPOT, work_h, slack_h - start_h)
    lost = plan.starting.fail[state] @ plan.value(IDLE, work_h, slack_h - start_h / 2)
    return zone.price / unit * start_h * (1 + survives) / 2 + float(begun + lost)


def _slack_price(situation: Situation, plan: Plan) -> float:
    start_h = max(situation.start_h, plan.problem.step_h)
    values: list[Array] = [
        plan.value(SPOT, situation.work_left_h, slack_h) for slack_h in (situation.slack_h - start_h, situation.slack_h)
    ]
    return max(0.0, float(values[0][0] - values[1][0])) / start_h


def _hourly(zone: Zone, situation: Situation, unit: float, slack_price: float) -> float:
    start_h = situation.start_h
    life_h = expected_life(hazards_of(zone.counts).preemption, zone.age_h or 0.0)
    used_h = min(life_h, situation.work_left_h + start_h)
    if used_h <= start_h:
        return math.inf
    return (zone.price / unit * used_h + slack_price * start_h) / (used_h - start_h)


def _best(zones: list[Zone], situation: Situation, unit: float, slack_price: float) -> Zone | None:
    return min(zones, key=lambda zone: _hourly(zone, situation, unit, slack_price)) if zones else None
