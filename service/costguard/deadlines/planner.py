"""The planner: acts on the least expected cost, which a plan over work, slack and the age of zones gives it.

The plan is solved again when the hazards, the prices or the start overhead have changed by more than a few per cent;
such changes move its cost by far less. See `plan.py` for the programme and service/docs/deadlines.md for its figures.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from costguard.deadlines.guard import (
    grounds_of,
    guarded,
    has_slack_to_move,
    latest_safe_h,
    may_move,
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
    bin_of,
    expected_life,
    hazards_of,
    stationary_ages,
)
from costguard.deadlines.simple_policies import wished
from costguard.deadlines.situation import Act, Choice, Situation, Why, Zone
from costguard.deadlines.spot_alone import LEAVE_FOR, age_h_of, on_spot_alone, open_zones

if TYPE_CHECKING:
    from costguard.deadlines.plan import Array, Plan

STEPS_OF_WORK = 160  # that a job's work is planned in
LEAST_STEP_H = 0.1
MOST_SLACK_STEPS = 400
DEAR_SPOT = 0.6  # of the on-demand price, above which Spot only replaces on-demand
PRIOR_LOST = 4.0  # preemptions that the prior chance of another zone counts for
OTHER_ZONE_IS_UP = 0.5
CLOSE = 0.05  # relative change of a price that is planned for again
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


class _Option(NamedTuple):
    cost: float
    act: Act
    why: Why
    zone: str | None = None


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
        if situation.zones and not payable.zones:
            return _without_more_spot(situation)
        situation = payable
        if held is not None and not self._explains:
            if held.kind == "spot" and (len(situation.zones) == 1 or not has_slack_to_move(situation)):
                return wished(situation, Act.STAY, Why.KEEP_SPOT, holds_h=situation.time_left_h)
            if held.kind == "on_demand" and not (may_start_spot(situation) or may_wait(situation)):
                return wished(situation, Act.STAY, Why.GUARD, holds_h=situation.time_left_h)
        plan = self._plan(situation)
        return _Weighing(situation, plan, self._explains, self._waiting_saves).choice()

    def _plan(self, situation: Situation) -> Plan:
        from costguard.deadlines.plan import Chances, PlanInput, solve  # NumPy takes 0.1 s to import

        assert situation.on_demand_price is not None
        whole_h = max(situation.work_left_h, situation.total_work_h or 0.0)
        slack_h = max(situation.slack_h, situation.elapsed_h + situation.time_left_h - whole_h)
        step_h = max(LEAST_STEP_H, whole_h / STEPS_OF_WORK)
        hazards, another_up = chances_of(situation)
        hazards = _coarse(hazards)
        found_ages = stationary_ages(hazards.preemption)
        problem = PlanInput(
            _rounded(_spot_price(situation) / situation.on_demand_price),
            1.0,
            situation.start_h,
            step_h,
            max(1, math.ceil(whole_h / step_h - 1e-9)),
            min(MOST_SLACK_STEPS, max(1, math.ceil(slack_h / step_h - 1e-9))),
            Chances(hazards, round(another_up, 1), found_ages),
            situation.loss_h,
        )
        plan = self._plans.get(problem)
        if plan is None:
            solved = solve(problem)
            # Half as large, and exact to a millionth, where a plan's steps are good to a hundredth.
            plan = self._plans[problem] = solved._replace(table=solved.table.astype("float32"))
            self.kept += plan.table.nbytes
            while len(self._plans) > 1 and (len(self._plans) > PLANS_KEPT or self.kept > MOST_KEPT):
                self.kept -= self._plans.popitem(last=False)[1].table.nbytes
        self._plans.move_to_end(problem)
        return plan


class _Weighing:
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
            return self._choice(self._keep_or_move(slack_price), slack_price)
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
        option = min(options, key=lambda option: option.cost)
        if option is on_demand and instead is not None:
            option = instead
        if option is on_demand and zones and held is None and not may_start_spot(self.situation):
            option = option._replace(why=Why.GUARD)
        return self._choice(option, slack_price, saves if option is wait else None)

    def _start_dear(self, zone: Zone | None, slack_price: float) -> _Option | None:
        """Starts Spot in place of an on-demand VM alone, and where it is cheaper than that."""
        if zone is None or not may_start_spot(self.situation):
            return None
        hour = self._cost_of_hour(zone, slack_price)
        work_h = self.situation.work_left_h
        return _Option(hour * work_h, Act.START_SPOT, Why.CHEAPER_ZONE, zone.name) if hour < LEAVE_FOR else None

    def _choice(self, option: _Option, slack_price: float, saves: float | None = None) -> Choice:
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
            hour_of_slack=slack_price * self.unit,
            saves=saves,
        )
        if self.explains:
            grounds = grounds._replace(until_h=self._until_h(option))
        return Choice(option.act, option.why, grounds, latest_safe_h(situation), option.zone, self.step_h)

    def _keep_or_move(self, slack_price: float) -> _Option:
        situation = self.situation
        held = situation.held
        assert held is not None
        running = situation.zone(held.zone)
        age = bin_of(age_h_of(running)) if running is not None else bin_of(held.age_h)
        cost = float(self._value("spot", situation.work_left_h, situation.slack_h)[age])
        keep = _Option(cost, Act.STAY, Why.KEEP_SPOT)
        if running is None or not may_move(situation):
            return keep
        others = [zone for zone in open_zones(situation) if zone.name != held.zone]
        if not others:
            return keep
        best = min(others, key=lambda zone: self._cost_of_hour(zone, slack_price))
        if self._cost_of_hour(best, slack_price) >= LEAVE_FOR * running.price / self.unit:
            return keep
        return _Option(self._start_spot(best).cost, Act.START_SPOT, Why.CHEAPER_ZONE, best.name)

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

    def _start_spot(self, zone: Zone) -> _Option:
        situation, plan, start_h = self.situation, self.plan, self.situation.start_h
        state = bin_of(age_h_of(zone))
        survives = float(plan.starting.stay[state].sum())
        price = zone.price / self.unit
        begun = plan.starting.stay[state] @ self._value("spot", situation.work_left_h, situation.slack_h - start_h)
        lost = plan.starting.fail[state] @ self._value("idle", situation.work_left_h, situation.slack_h - start_h / 2)
        cost = price * start_h * (survives + (1 - survives) / 2) + float(begun + lost) + zone.move_cost / self.unit
        return _Option(cost, Act.START_SPOT, Why.SPOT_IS_UP, zone.name)

    def _go_on_demand(self, state: int) -> _Option:
        situation, start_h = self.situation, self.situation.start_h
        if situation.slack_h < start_h:
            return _Option(situation.work_left_h + start_h, Act.START_ON_DEMAND, Why.GUARD)
        after = self._value("on_demand", situation.work_left_h, situation.slack_h - start_h)
        return _Option(start_h + float(self.plan.starting.any[state] @ after), Act.START_ON_DEMAND, Why.BEHIND)

    def _stay_on_demand(self, state: int) -> _Option:
        situation, step_h = self.situation, self.step_h
        held = situation.held
        assert held is not None
        hours = min(step_h, situation.work_left_h)
        slack_h = situation.slack_h - held.start_left_h
        after = self._value("on_demand", situation.work_left_h - hours, slack_h)
        cost = held.start_left_h + hours + float(self.plan.stepping.any[state] @ after)
        return _Option(cost, Act.STAY, Why.BEHIND)

    def _wait(self, state: int) -> _Option:
        situation = self.situation
        after = self._value("idle", situation.work_left_h, situation.slack_h - self.step_h)
        return _Option(float(self.plan.stepping.any[state] @ after), Act.WAIT, Why.PLAN)

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

    def _until_h(self, option: _Option) -> float | None:
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


def chances_of(situation: Situation) -> tuple[Hazards, float]:
    """The hazards of the zone that the job holds or would, and the chance of another when it is lost."""
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


def _may_wait_for_spot(situation: Situation) -> bool:
    """Waiting is of use while a Spot VM may still be started after it, and where there is one that is cheap enough."""
    if not may_wait(situation) or situation.slack_h - situation.interval_h < situation.spot_needs_h:
        return False
    return any(zone.price <= DEAR_SPOT * (situation.on_demand_price or 0.0) for zone in situation.zones)


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


def _rounded(value: float) -> float:
    """Rounds to within a few per cent, so that plans are solved again for changes that matter alone."""
    return math.exp(round(math.log(value) / CLOSE) * CLOSE) if value > 0 else 0.0
