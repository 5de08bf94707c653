"""Weighs what a job may do that may also ask for a flex-start VM: with its request, without it, and on such a VM."""

from __future__ import annotations

from itertools import pairwise

from costguard.deadlines.flex_plan import AGES, FLEX, GRANTED, layer
from costguard.deadlines.guard import may_await_flex
from costguard.deadlines.hazards import BINS, bin_of
from costguard.deadlines.plan import IDLE, ON_DEMAND, SPOT, Array, FlexInput
from costguard.deadlines.simple_policies import must_ask_next
from costguard.deadlines.situation import Act, Choice, FlexOffer, Why, Zone
from costguard.deadlines.spot_alone import age_h_of
from costguard.deadlines.waits import WAIT_STARTS, grant_hazards, wait_bin_of
from costguard.deadlines.weighing import ActCost, Weighing

OLD = 2  # the bin of waits from which on a request is old in a plan


def flex_input(flex: FlexOffer, price: float, rounded: int = 1) -> FlexInput:
    """The offer in a plan: grants an hour of young and of old requests, to so many digits."""
    longest_h = flex.longest_wait_h
    hazards = grant_hazards(flex.waits, longest_h)
    ages = (0.0, min(WAIT_STARTS[OLD], longest_h / 2), longest_h)
    starts = (*WAIT_STARTS, longest_h)
    grants = []
    for first_h, last_h in pairwise(ages):
        passed = sum(
            hazard * max(0.0, min(end_h, last_h) - max(start_h, first_h))
            for hazard, start_h, end_h in zip(hazards, starts, starts[1:], strict=False)
        )
        grants.append(round(passed / (last_h - first_h), rounded))
    return FlexInput(price, tuple(grants), ages)


class FlexWeighing(Weighing):
    """The cost of each act from here, where a flex-start VM may be asked for, waited for or held."""

    def choice(self) -> Choice:
        """The act of least cost. Close to its end, a flex-start VM is followed by the next."""
        held = self.situation.held
        if must_ask_next(self.situation):
            act = Act.START_FLEX if self.situation.asked is None else Act.STAY
            return self._choice(ActCost(self._on_flex(), act, Why.FLEX_ENDS))
        if held is None or held.kind != "spot":
            return super().choice()
        option = self._keep_or_move(self._hour_of_slack())
        if option.act is Act.STAY:
            option = self._keep_spot(option)
        return self._choice(option)

    def _others(self, _state: int) -> list[ActCost]:
        """Adds what is held, or nothing, with a request that waits on or is made now."""
        situation, plan = self.situation, self.plan
        held = situation.held
        if not may_await_flex(situation) or (held is not None and held.kind == "flex"):
            return []
        if held is None:
            cost = plan.stepping.any[_state] @ self._asked(IDLE, situation.work_left_h, situation.slack_h - self.step_h)
            act = Act.WAIT if situation.asked is not None else Act.START_FLEX
            return [ActCost(float(cost), act, Why.PLAN)]
        hours = min(self.step_h, situation.work_left_h)
        slack_h = situation.slack_h - held.start_left_h
        after = self._asked(ON_DEMAND, situation.work_left_h - hours, slack_h)
        cost = held.start_left_h + hours + plan.stepping.any[_state] @ after
        return [ActCost(float(cost), self._ask_or_stay(), Why.PLAN)]

    def _keep_spot(self, keep: ActCost) -> ActCost:
        """Keeps the Spot VM that runs, with or without a request, whichever is expected to cost less."""
        situation, plan = self.situation, self.plan
        held = situation.held
        assert held is not None
        zone = situation.zone(held.zone)
        age = bin_of(age_h_of(zone) if zone is not None else held.age_h)
        alone = keep._replace(act=Act.DROP_FLEX if situation.asked is not None else Act.STAY)
        if not may_await_flex(situation):
            return alone
        stays, fails = plan.stepping.stay[age], plan.stepping.fail[age]
        work_h, slack_h = max(0.0, situation.work_left_h - self.step_h), situation.slack_h
        without = stays @ self._value("spot", work_h, slack_h) + fails @ self._value("idle", work_h, slack_h)
        waiting = stays @ self._asked(SPOT, work_h, slack_h) + fails @ self._asked(IDLE, work_h, slack_h)
        return keep._replace(act=self._ask_or_stay()) if waiting < without - _TINY else alone

    def _ask_or_stay(self) -> Act:
        return Act.STAY if self.situation.asked is not None else Act.START_FLEX

    def _asked(self, columns: slice, work_h: float, slack_h: float) -> Array:
        """Values a step from now of a job whose request waits now: it is granted in that step, or older after it."""
        granting = self.plan.granting
        assert granting is not None
        request = self.situation.asked
        age = 0 if request is None or wait_bin_of(request.age_h) < OLD else AGES - 1
        values: Array = granting[age, AGES] * self._columns(GRANTED, work_h, slack_h)[: columns.stop - columns.start]
        for later in range(AGES):
            values = values + granting[age, later] * self._columns(layer(columns, later), work_h, slack_h)
        return values

    def _columns(self, columns: slice, work_h: float, slack_h: float) -> Array:
        return self.plan.value(columns, work_h, slack_h)

    def _start_dear(self, zone: Zone | None, slack_price: float) -> ActCost | None:
        held = self.situation.held
        return None if held is not None and held.kind == "flex" else super()._start_dear(zone, slack_price)

    def _stay_on_demand(self, state: int) -> ActCost:
        held = self.situation.held
        assert held is not None
        if held.kind == "flex":
            return ActCost(self._on_flex(state), Act.STAY, Why.PLAN)
        option = super()._stay_on_demand(state)
        return option._replace(act=Act.DROP_FLEX) if self.situation.asked is not None else option

    def _on_flex(self, state: int | None = None) -> float:
        """Returns the cost of going on with the flex-start VM that is held."""
        situation = self.situation
        held, flex = situation.held, self.plan.problem.flex
        assert held is not None
        assert flex is not None
        hours = min(self.step_h, situation.work_left_h)
        after = self._columns(FLEX, situation.work_left_h - hours, situation.slack_h - held.start_left_h)
        moves = self.plan.stepping.any[BINS if state is None else state]
        return (held.start_left_h + hours) * flex.price + float(moves @ after)

    def _wait(self, state: int) -> ActCost:
        option = super()._wait(state)
        is_asked = self.situation.asked is not None and self.situation.held is None
        return option._replace(act=Act.DROP_FLEX) if is_asked else option


_TINY = 1e-6  # of an hour on demand: two acts that cost the same
