"""Weighs what a job with a deadline may do now: the cost of each act from here, by the plan's tables.

All costs are shares of an hour on demand until they are shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from costguard.deadlines.guard import grounds_of, latest_safe_h, may_move, may_start_spot, may_wait
from costguard.deadlines.hazards import BINS, bin_of, expected_life, hazards_of
from costguard.deadlines.situation import Act, Choice, Situation, Why, Zone
from costguard.deadlines.spot_alone import LEAVE_FOR, age_h_of, open_zones

if TYPE_CHECKING:
    from costguard.deadlines.plan import Array, Plan

DEAR_SPOT = 0.6  # of the on-demand price, above which Spot only replaces on-demand


class ActCost(NamedTuple):
    cost: float
    act: Act
    why: Why
    zone: str | None = None


class Weighing:
    """The cost of each act from here, in shares of an hour on demand."""

    def __init__(self, situation: Situation, plan: Plan, explains: bool, waiting_saves: float) -> None:
        self.situation = situation
        self.plan = plan
        self.explains = explains
        self.waiting_saves = waiting_saves
        self.unit = situation.on_demand_price or 1.0
        self.step_h = plan.problem.step_h
        self.life_of: dict[str, float] = {}

    def choice(self) -> Choice:
        held = self.situation.held
        slack_price = self._hour_of_slack()
        if held is not None and held.kind == "spot":
            return self._choice(self._keep_or_move(slack_price))
        zones = open_zones(self.situation)
        dear = [zone for zone in zones if zone.price > DEAR_SPOT * self.unit]
        zone = self._best_of([zone for zone in zones if zone not in dear], slack_price)
        state = self._state(zone)
        on_demand = self._go_on_demand(state) if held is None else self._stay_on_demand(state)
        start = self._start_spot(zone) if zone is not None and may_start_spot(self.situation) else None
        instead = self._start_dear(self._best_of(dear, slack_price), slack_price)
        options = [on_demand] if start is None else [on_demand, start]
        now = start or instead or (on_demand if zones else None)
        wait = self._wait(state) if _may_wait_for_spot(self.situation) else None
        saves = 1 - wait.cost / now.cost if wait is not None and now is not None else None
        # Waiting makes a zone older, but one of unknown age would be of unknown age after that.
        grows_older = start is None or zone is None or zone.age_h is not None
        if wait is not None and grows_older and (saves is None or saves >= self.waiting_saves):
            options.append(wait)
        options.extend(self._others(state))
        option = min(options, key=lambda option: option.cost)
        if option is on_demand and instead is not None:
            option = instead
        if option is on_demand and zones and held is None and not may_start_spot(self.situation):
            option = option._replace(why=Why.GUARD)
        return self._choice(option, saves if option is wait else None)

    def _others(self, _state: int) -> list[ActCost]:
        """Returns what else may be done, where there is more than Spot and on demand."""
        return []

    def _start_dear(self, zone: Zone | None, slack_price: float) -> ActCost | None:
        """Starts Spot in place of an on-demand VM alone, and where it is cheaper than that."""
        if zone is None or not may_start_spot(self.situation):
            return None
        hour = self._cost_of_hour(zone, slack_price)
        work_h = self.situation.work_left_h
        return ActCost(hour * work_h, Act.START_SPOT, Why.CHEAPER_ZONE, zone.name) if hour < LEAVE_FOR else None

    def _choice(self, option: ActCost, saves: float | None = None) -> Choice:
        situation = self.situation
        held = situation.held
        life = None
        name = option.zone or (held.zone if held is not None and held.kind == "spot" else None)
        zone = situation.zone(name) if name is not None else None
        if zone is not None:
            life = self._life(zone)
        grounds = grounds_of(situation)._replace(
            expected_life_h=life if life is None or math.isfinite(life) else None,
            expected_cost=option.cost * self.unit,
            saves=saves,
        )
        if self.explains:
            grounds = grounds._replace(until_h=self._until_h(option))
        return Choice(option.act, option.why, grounds, latest_safe_h(situation), option.zone, self.step_h)

    def _keep_or_move(self, slack_price: float) -> ActCost:
        situation = self.situation
        held = situation.held
        assert held is not None
        running = situation.zone(held.zone)
        age = bin_of(age_h_of(running)) if running is not None else bin_of(held.age_h)
        cost = float(self._value("spot", situation.work_left_h, situation.slack_h)[age])
        keep = ActCost(cost, Act.STAY, Why.KEEP_SPOT)
        if running is None or not may_move(situation):
            return keep
        others = [zone for zone in open_zones(situation) if zone.name != held.zone]
        if not others:
            return keep
        best = min(others, key=lambda zone: self._cost_of_hour(zone, slack_price))
        if self._cost_of_hour(best, slack_price) >= LEAVE_FOR * running.price / self.unit:
            return keep
        return ActCost(self._start_spot(best).cost, Act.START_SPOT, Why.CHEAPER_ZONE, best.name)

    def _best_of(self, zones: Sequence[Zone], slack_price: float) -> Zone | None:
        return min(zones, key=lambda zone: self._cost_of_hour(zone, slack_price)) if zones else None

    def _cost_of_hour(self, zone: Zone, slack_price: float) -> float:
        """Returns the cost of an hour of useful work on a new VM there, with its start and the slack for it."""
        start_h = self.situation.start_h
        life = min(self._life(zone), self.situation.work_left_h + start_h)
        if life <= start_h:
            return math.inf
        cost = zone.price / self.unit * life + slack_price * start_h + zone.move_cost / self.unit
        return cost / (life - start_h)

    def _life(self, zone: Zone) -> float:
        life = self.life_of.get(zone.name)
        if life is None:
            life = self.life_of[zone.name] = expected_life(hazards_of(zone.counts).preemption, age_h_of(zone))
        return life

    def _state(self, zone: Zone | None) -> int:
        """The number of the state: the best zone's age, or how long all have been out."""
        if zone is not None:
            return bin_of(age_h_of(zone))
        outages = [zone.age_h or 0.0 for zone in self.situation.zones if zone.is_up is False]
        return BINS + bin_of(min(outages, default=0.0))

    def _start_spot(self, zone: Zone) -> ActCost:
        situation, plan, start_h = self.situation, self.plan, self.situation.start_h
        state = bin_of(age_h_of(zone))
        survives = float(plan.starting.stay[state].sum())
        price = zone.price / self.unit
        begun = plan.starting.stay[state] @ self._value("spot", situation.work_left_h, situation.slack_h - start_h)
        lost = plan.starting.fail[state] @ self._value("idle", situation.work_left_h, situation.slack_h - start_h / 2)
        cost = price * start_h * (survives + (1 - survives) / 2) + float(begun + lost) + zone.move_cost / self.unit
        return ActCost(cost, Act.START_SPOT, Why.SPOT_IS_UP, zone.name)

    def _go_on_demand(self, state: int) -> ActCost:
        situation, start_h = self.situation, self.situation.start_h
        if situation.slack_h < start_h:
            return ActCost(situation.work_left_h + start_h, Act.START_ON_DEMAND, Why.GUARD)
        after = self._value("on_demand", situation.work_left_h, situation.slack_h - start_h)
        return ActCost(start_h + float(self.plan.starting.any[state] @ after), Act.START_ON_DEMAND, Why.BEHIND)

    def _stay_on_demand(self, state: int) -> ActCost:
        situation, step_h = self.situation, self.step_h
        held = situation.held
        assert held is not None
        hours = min(step_h, situation.work_left_h)
        slack_h = situation.slack_h - held.start_left_h
        after = self._value("on_demand", situation.work_left_h - hours, slack_h)
        cost = held.start_left_h + hours + float(self.plan.stepping.any[state] @ after)
        return ActCost(cost, Act.STAY, Why.BEHIND)

    def _wait(self, state: int) -> ActCost:
        situation = self.situation
        after = self._value("idle", situation.work_left_h, situation.slack_h - self.step_h)
        return ActCost(float(self.plan.stepping.any[state] @ after), Act.WAIT, Why.PLAN)

    def _hour_of_slack(self) -> float:
        """Returns the amount that an hour more would save a job on Spot."""
        situation = self.situation
        held = situation.held
        zone = situation.zone(held.zone) if held is not None and held.kind == "spot" else None
        age = bin_of(age_h_of(zone)) if zone is not None else 0
        over_h = max(situation.start_h, self.step_h)
        slack_h = situation.slack_h - over_h if situation.slack_h >= over_h else situation.slack_h
        less = float(self._value("spot", situation.work_left_h, slack_h)[age])
        more = float(self._value("spot", situation.work_left_h, slack_h + over_h)[age])
        return max(0.0, less - more) / over_h

    def _value(self, state: str, work_h: float, slack_h: float) -> Array:
        from costguard.deadlines import plan as tables

        columns = {"spot": tables.SPOT, "on_demand": tables.ON_DEMAND, "idle": tables.IDLE}[state]
        return self.plan.value(columns, work_h, slack_h)

    def _until_h(self, option: ActCost) -> float | None:
        """Returns the hours until waiting will be better than on-demand; None where it never is."""
        is_on_demand = self.situation.held is not None and self.situation.held.kind == "on_demand"
        if option.act is not Act.START_ON_DEMAND and not (option.act is Act.STAY and is_on_demand):
            return None
        situation, step_h = self.situation, self.step_h
        slack_h = situation.slack_h - (situation.start_h if not is_on_demand else 0.0)
        out_h = min((zone.age_h or 0.0 for zone in situation.zones), default=0.0)
        for steps in range(1, math.ceil(situation.work_left_h / step_h)):
            if slack_h - step_h < situation.start_h:
                return None
            work_h = situation.work_left_h - steps * step_h
            moves = self.plan.stepping.any[BINS + bin_of(out_h + steps * step_h)]
            goes_on = step_h + float(moves @ self._value("on_demand", work_h - step_h, slack_h))
            if float(moves @ self._value("idle", work_h, slack_h - step_h)) < goes_on:
                return steps * step_h + (situation.start_h if not is_on_demand else 0.0)
        return None


def _may_wait_for_spot(situation: Situation) -> bool:
    """Waiting is of use while a Spot VM may still be started after it, and where there is one that is cheap enough."""
    if not may_wait(situation) or situation.slack_h - situation.interval_h < situation.spot_needs_h:
        return False
    return any(zone.price <= DEAR_SPOT * (situation.on_demand_price or 0.0) for zone in situation.zones)
