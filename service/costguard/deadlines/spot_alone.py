"""Plans without on-demand VMs: Spot at once, wherever there is any, and flex-start where there is none."""

from __future__ import annotations

import math

from costguard.deadlines.guard import has_slack_to_move, may_move
from costguard.deadlines.hazards import expected_life, hazards_of
from costguard.deadlines.simple_policies import must_ask_next, wished
from costguard.deadlines.situation import Act, Choice, Situation, Why, Zone

TYPICAL_AGE_H = 4.0  # of a zone about which nothing is known: by the prior, half of what is up has been for longer
LEAVE_FOR = 0.95  # of the cost of the zone that runs, at which another is worth a move
LOOKS_AGAIN_H = 0.5  # at other zones while one runs: they become cheaper, or old enough


def on_spot_alone(situation: Situation) -> Choice:
    """Chooses Spot, which alone does any work without on-demand VMs: it is started wherever it is available, without
    waiting. Where there is none, a flex-start VM is asked for, if the job may have one.
    """
    if _asks_for_flex(situation):
        return wished(situation, Act.START_FLEX, Why.NO_ON_DEMAND, holds_h=situation.time_left_h)
    if situation.held is not None:
        return _stay_or_move(situation)
    zones = open_zones(situation)
    if not zones:
        return wished(situation, Act.WAIT, Why.NO_ON_DEMAND, holds_h=situation.time_left_h)
    lives = {zone.name: _life(zone) for zone in zones}
    zone = min(zones, key=lambda zone: (_cost_alone(situation, zone, lives[zone.name]), -lives[zone.name]))
    return _start_in(situation, zone, Why.SPOT_IS_UP)


def _asks_for_flex(situation: Situation) -> bool:
    """A Spot VM asks for one too that costs no more, as nobody takes it, or once a loss could make the job late."""
    flex, held = situation.flex, situation.held
    if flex is None or situation.asked is not None:
        return False
    if held is None:
        return not open_zones(situation)
    if held.kind == "flex":
        return must_ask_next(situation)
    zone = situation.zone(held.zone)
    is_cheap = zone is not None and flex.price <= zone.price
    return situation.slack_h >= situation.flex_needs_h and (is_cheap or not has_slack_to_move(situation))


def _stay_or_move(situation: Situation) -> Choice:
    """The slack of a move pays for the way back, too: a job that would be on time where it runs is so after a move."""
    held = situation.held
    running = situation.zone(held.zone) if held is not None and held.kind == "spot" else None
    others = [zone for zone in open_zones(situation) if zone is not running]
    if running is None or not others or not has_slack_to_move(situation):
        return wished(situation, Act.STAY, Why.KEEP_SPOT, holds_h=situation.time_left_h)
    costs = {zone.name: _cost_alone(situation, zone, _life(zone)) for zone in others}
    best = min(others, key=lambda zone: costs[zone.name])
    if may_move(situation) and costs[best.name] < LEAVE_FOR * running.price:
        return _start_in(situation, best, Why.CHEAPER_ZONE)
    return wished(situation, Act.STAY, Why.KEEP_SPOT, holds_h=min(LOOKS_AGAIN_H, situation.time_left_h))


def _start_in(situation: Situation, zone: Zone, why: Why) -> Choice:
    life = _life(zone)
    choice = wished(situation, Act.START_SPOT, why, zone.name, holds_h=situation.time_left_h)
    return choice._replace(grounds=choice.grounds._replace(expected_life_h=life if math.isfinite(life) else None))


def _life(zone: Zone) -> float:
    return expected_life(hazards_of(zone.counts).preemption, age_h_of(zone))


def _cost_alone(situation: Situation, zone: Zone, life_h: float) -> float:
    """Returns the cost of an hour of work there; where no second start fits, the zones that last longest come first."""
    used_h = min(life_h, situation.work_left_h + situation.start_h)
    if used_h <= situation.start_h:
        return math.inf
    if situation.slack_h < 2 * situation.start_h:
        return -used_h
    return (zone.price * used_h + zone.move_cost) / (used_h - situation.start_h)


def open_zones(situation: Situation) -> list[Zone]:
    return [zone for zone in situation.zones if zone.is_up is not False]


def age_h_of(zone: Zone) -> float:
    return TYPICAL_AGE_H if zone.age_h is None else zone.age_h
