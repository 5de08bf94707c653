"""ROSS, a randomised policy: Bhuyan et al., "Exploiting Spot Instances for Time-Critical Cloud Workloads Using Optimal
Randomized Strategies" (INFOCOM 2026, arXiv 2601.14612).

From the paper's published summaries: three phases. The warm-up lasts while (time left) / (work left) is above
(1 + 2 sqrt(K)) / (1 + sqrt(K)), K being the price on demand over that of Spot, and is "greedy" or "uniform"; then comes
on-demand for an interval of (work left) / (1 + sqrt(K)), drawn at random; then the end. Reconstructed here, as the full
text was not at hand: the interval lies anywhere in the hours in which all slack would be used up without any Spot;
inside it, Spot is taken where it is up when the interval begins or a VM is lost; outside it, greedy with the guard.
"""

from __future__ import annotations

import math
from random import Random

from costguard.deadlines.guard import guarded
from costguard.deadlines.simple_policies import UniformProgress, cheapest_open, spot_or_wait, wished
from costguard.deadlines.situation import Act, Choice, Situation, Why


class Ross:
    """The Ross policy. A job's lot is drawn once, when its warm-up ends. `warm_up`: "greedy" or "uniform"."""

    def __init__(self, random: Random, warm_up: str = "greedy") -> None:
        self.name = "ross" if warm_up == "greedy" else f"ross_{warm_up}"
        self._random = random
        self._warm_up = warm_up
        self._begins_h: float | None = None  # on the job's clock
        self._ends_h = 0.0

    def choose(self, situation: Situation) -> Choice:
        return guarded(situation, self._wish(situation))

    def _wish(self, situation: Situation) -> Choice:
        zone = cheapest_open(situation)
        price = zone.price if zone is not None else min((one.price for one in situation.zones), default=0.0)
        if situation.on_demand_price is None or price <= 0 or situation.work_left_h <= 0:
            return spot_or_wait(situation)
        root = math.sqrt(max(1.0, situation.on_demand_price / price))
        if self._begins_h is None:
            spare_h = situation.time_left_h - situation.work_left_h * (1 + 2 * root) / (1 + root)
            if spare_h > 0:
                return self._warming_up(situation, spare_h)
            length_h = situation.work_left_h / (1 + root)
            latest_h = max(0.0, situation.slack_h)
            self._begins_h = situation.elapsed_h + self._random.uniform(0.0, latest_h)
            self._ends_h = self._begins_h + length_h
        now_h = situation.elapsed_h
        if now_h < self._begins_h:
            return _no_longer(spot_or_wait(situation), self._begins_h - now_h)
        if now_h < self._ends_h:
            return self._inside(situation, self._ends_h - now_h)
        held = situation.held
        if held is not None and held.kind == "on_demand" and zone is not None:
            return wished(situation, Act.START_SPOT, Why.SPOT_IS_UP, zone.name)
        if held is not None and held.kind == "on_demand":
            return wished(situation, Act.WAIT, Why.PLAN, holds_h=situation.time_left_h)
        return spot_or_wait(situation)

    def _warming_up(self, situation: Situation, spare_h: float) -> Choice:
        choice = UniformProgress().choose(situation) if self._warm_up == "uniform" else spot_or_wait(situation)
        return _no_longer(choice, spare_h)

    def _inside(self, situation: Situation, left_h: float) -> Choice:
        """Chooses on demand, unless a Spot VM runs or is available instead of starting one on demand."""
        held = situation.held
        if held is not None:
            why = Why.KEEP_SPOT if held.kind == "spot" else Why.PLAN
            return wished(situation, Act.STAY, why, holds_h=left_h)
        zone = cheapest_open(situation)
        if zone is not None:
            return wished(situation, Act.START_SPOT, Why.SPOT_IS_UP, zone.name, left_h)
        return wished(situation, Act.START_ON_DEMAND, Why.PLAN, holds_h=left_h)


def _no_longer(choice: Choice, hours: float) -> Choice:
    return choice._replace(holds_h=min(choice.holds_h, hours))
