"""Policies that look at no history: greedy with a safety net, Uniform Progress, and all on demand."""

from __future__ import annotations

from costguard.deadlines.guard import behind_line_h, grounds_of, guarded, latest_safe_h
from costguard.deadlines.situation import Act, Choice, Policy, Situation, Why, Zone


class Greedy:
    """Spot when there is any, waiting otherwise, and on demand at the last safe moment."""

    name = "greedy"

    def choose(self, situation: Situation) -> Choice:
        return guarded(situation, spot_or_wait(situation))


class OnDemand:
    """Runs on demand from the beginning to the end: the baseline of the others."""

    name = "on_demand"

    def choose(self, situation: Situation) -> Choice:
        act = Act.STAY if situation.held is not None else Act.START_ON_DEMAND
        return guarded(situation, wished(situation, act, Why.PLAN))


class FlexAlone:
    """Asks for a flex-start VM at once, and again after each refusal; on demand where the guard says so."""

    name = "flex_alone"

    def choose(self, situation: Situation) -> Choice:
        return guarded(situation, self._wish(situation))

    def _wish(self, situation: Situation) -> Choice:
        held = situation.held
        if situation.asked is not None:
            act = Act.WAIT if held is None else Act.STAY
        elif held is not None and held.kind == "flex" and not must_ask_next(situation):
            act = Act.STAY
        else:
            act = Act.START_FLEX
        return wished(situation, act, Why.PLAN, holds_h=situation.time_left_h)


class WithoutFlex:
    """Another policy, that may have Spot and on-demand VMs alone."""

    def __init__(self, policy: Policy, name: str) -> None:
        self.name = name
        self._policy = policy

    def choose(self, situation: Situation) -> Choice:
        return self._policy.choose(situation._replace(flex=None, asked=None))


class UniformProgress:
    """Keeps to a straight line of progress from the launch to the deadline.

    Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines", NSDI 2024, section 4: idle, behind the
    line and no Spot, on demand; Spot whenever there is any, until it is lost; from on demand back to Spot only where
    the job is ahead of where the line will be in two starts; near the last safe moment, on demand to the end.
    """

    name = "uniform_progress"

    def choose(self, situation: Situation) -> Choice:
        return guarded(situation, self._wish(situation))

    def _wish(self, situation: Situation) -> Choice:
        held = situation.held
        if held is not None and held.kind == "spot":
            return wished(situation, Act.STAY, Why.KEEP_SPOT, holds_h=situation.time_left_h)
        behind_h = behind_line_h(situation)
        if behind_h is None:
            raise ValueError("Uniform Progress needs the whole work of the job, to draw its line.")
        line = _work_of_an_hour(situation)
        if held is not None:
            zone = cheapest_open(situation)
            ahead_in_h = (behind_h + 2 * situation.start_h * line) / max(1e-9, 1 - line)
            if zone is None or behind_h + 2 * situation.start_h * line > 0:
                holds_h = max(0.0, ahead_in_h) if zone is not None else situation.time_left_h
                return wished(situation, Act.STAY, Why.BEHIND, holds_h=holds_h)
            return wished(situation, Act.START_SPOT, Why.AHEAD, zone.name)
        if situation.slack_h < situation.spot_needs_h:
            return wished(situation, Act.START_ON_DEMAND, Why.GUARD)
        zone = cheapest_open(situation)
        if zone is not None:
            return wished(situation, Act.START_SPOT, Why.SPOT_IS_UP, zone.name)
        if behind_h > 0:
            return wished(situation, Act.START_ON_DEMAND, Why.BEHIND)
        safe_h = situation.slack_h - situation.spot_needs_h
        return wished(situation, Act.WAIT, Why.AHEAD, holds_h=min(-behind_h / max(line, 1e-9), safe_h))


def spot_or_wait(situation: Situation) -> Choice:
    """Spot where there is any; what was started on demand, because it was time, stays."""
    if situation.held is not None:
        why = Why.KEEP_SPOT if situation.held.kind == "spot" else Why.GUARD
        return wished(situation, Act.STAY, why, holds_h=situation.time_left_h)
    zone = cheapest_open(situation)
    if zone is None:
        return wished(situation, Act.WAIT, Why.PLAN, holds_h=situation.time_left_h)
    return wished(situation, Act.START_SPOT, Why.SPOT_IS_UP, zone.name, situation.time_left_h)


def cheapest_open(situation: Situation) -> Zone | None:
    open_zones = [zone for zone in situation.zones if zone.is_up is not False]
    return min(open_zones, key=lambda zone: zone.price) if open_zones else None


def ends_too_early(situation: Situation) -> bool:
    """Says whether Google ends the flex-start VM that is held before the job's work is done."""
    held, flex = situation.held, situation.flex
    if held is None or flex is None or held.kind != "flex":
        return False
    return held.start_left_h + situation.work_left_h > flex.longest_run_h - held.age_h


def must_ask_next(situation: Situation) -> bool:
    """Says whether the VM that follows such a one has to be asked for now, so that it is granted and made ready."""
    held, flex = situation.held, situation.flex
    if held is None or flex is None or not ends_too_early(situation):
        return False
    return flex.longest_run_h - held.age_h <= flex.longest_wait_h + situation.start_h + situation.interval_h


def wished(situation: Situation, act: Act, why: Why, zone: str | None = None, holds_h: float = 0.0) -> Choice:
    return Choice(act, why, grounds_of(situation), latest_safe_h(situation), zone, holds_h)


def _work_of_an_hour(situation: Situation) -> float:
    """Returns the part of the straight line that an hour is."""
    whole_h = situation.elapsed_h + situation.time_left_h
    return (situation.total_work_h or 0.0) / whole_h if whole_h > 0 else 1.0
