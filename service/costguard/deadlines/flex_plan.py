"""The plan of `plan.py` with flex-start VMs as well: requests that wait, and VMs that nobody takes.

More states: S, O and N while a request waits, one layer of the three for each age of the request; F, on a flex-start
VM; and G, a request that is granted just now, whose VM has to start yet. In a step a request is granted with the chance
of its age, or grows older; one that ends in vain is made again. A grant takes over from whatever the job holds. It
must fit: where its start would be too late, no request is open.

With flex-start each table has four times the columns, and so it covers less slack.
"""

from __future__ import annotations

import math

import numpy as np

from costguard.deadlines.hazards import BINS
from costguard.deadlines.plan import (
    IDLE,
    ON_DEMAND,
    SPOT,
    STATES,
    SUBSTEP_H,
    Array,
    FlexInput,
    Moves,
    Plan,
    PlanInput,
    PlanRows,
    moves_of,
)

LAYER = BINS + 2 * STATES  # columns of S, O and N
AGES = 2  # of a request, in a plan
GRANTED = slice((1 + AGES) * LAYER, (1 + AGES) * LAYER + STATES)  # G
FLEX = slice(GRANTED.stop, GRANTED.stop + STATES)  # F
COLUMNS = FLEX.stop
_ASKED = slice(LAYER, GRANTED.stop)  # the layers of a request, and G
_ROWS_AT_ONCE = 32  # a larger product would be shared out among threads, which takes longer than it does


def layer(columns: slice, age: int) -> slice:
    """The columns of S, O or N while a request of this age waits."""
    return slice(columns.start + (1 + age) * LAYER, columns.stop + (1 + age) * LAYER)


def solve_with_flex(problem: PlanInput) -> Plan:
    """Fills the tables, as `solve` does."""
    assert problem.flex is not None
    starting = moves_of(problem.chances, problem.start_h)
    stepping = moves_of(problem.chances, problem.step_h)
    works, slacks = problem.work_steps, problem.slack_steps
    table = np.zeros((works + slacks + 1, slacks + 1, COLUMNS))
    granting = granting_of(problem.flex, problem.step_h)
    rows = _FlexRows(Plan(problem, table, starting, stepping, granting), problem.flex, granting)
    for row in range(1, works + slacks + 1):
        rows.fill(row)
    return Plan(problem, table, starting, stepping, granting)


def granting_of(flex: FlexInput, hours: float) -> Array:
    """Returns the chances of a request of each age, over any span: to be of each age after it, and, last, granted."""
    count = max(1, math.ceil(hours / SUBSTEP_H))
    short_h = hours / count
    once = np.zeros((AGES + 1, AGES + 1))
    once[AGES, AGES] = 1.0
    for age in range(AGES):
        waits = math.exp(-flex.grants[age] * short_h)
        older = min(1.0, short_h / (flex.ages[age + 1] - flex.ages[age]))
        once[age, AGES] = 1 - waits
        once[age, (age + 1) % AGES] += waits * older  # the oldest end, and are made again
        once[age, age] += waits * (1 - older)
    after: Array = np.linalg.matrix_power(once, count)[:AGES]
    return after


class _FlexRows(PlanRows):
    """The rows of a table with requests, and with VMs on flex-start."""

    def __init__(self, plan: Plan, flex: FlexInput, granting: Array) -> None:
        super().__init__(plan.problem, plan.starting, plan.stepping, plan.table)
        self.price = flex.price
        self.asked_step = _asked_step(plan.stepping, granting)
        costs = np.zeros((AGES, LAYER))
        costs[:, SPOT] = plan.problem.spot_price * plan.problem.step_h
        costs[:, ON_DEMAND] = plan.problem.on_demand_price * plan.problem.step_h
        self.asked_cost = costs

    def fill(self, row: int) -> None:
        """All states whose work and slack add up to this row, but those without work, which cost nothing."""
        problem, table = self.problem, self.table
        first, last = max(0, row - problem.work_steps), min(row - 1, problem.slack_steps)
        now, before = table[row, first : last + 1], table[row - 1, first : last + 1]
        self.run(row, first, last)
        np.matmul(before[:, FLEX], self.any_step, out=now[:, FLEX])
        now[:, FLEX] += self.price * problem.step_h
        waiting = self._asked(row, first, last)
        if waiting is not None:
            np.minimum(now[:, :LAYER], waiting[:, 0], out=now[:, :LAYER])
        self._leave_flex(row, first, last, *self.start_spot(row, first, last))
        self._grant(row, first, last)
        self.start_on_demand(row, first, last)
        for age in range(AGES):
            columns = now[:, (1 + age) * LAYER : (2 + age) * LAYER]
            columns[:] = now[:, :LAYER]
            if waiting is not None:
                np.minimum(columns, waiting[:, age], out=columns)

    def _asked(self, row: int, first: int, last: int) -> Array | None:
        """Returns S, O and N by the age of a request that waits on for a step; infinite where a grant would be late."""
        if last < self.start_from:
            return None
        low = max(first - 1, 0)
        after: Array = np.empty((last + 1 - low, AGES * LAYER))
        for place in range(0, last + 1 - low, _ROWS_AT_ONCE):
            rows = slice(place, min(place + _ROWS_AT_ONCE, last + 1 - low))
            np.matmul(self.table[row - 1, low + rows.start : low + rows.stop, _ASKED], self.asked_step, out=after[rows])
        after = after.reshape(-1, AGES, LAYER)
        after += self.asked_cost
        waiting = np.full((last + 1 - first, AGES, LAYER), np.inf)
        held_from, wait_from = max(first, self.start_from), max(first, self.wait_from)
        waiting[held_from - first :, :, : IDLE.start] = after[held_from - low :, :, : IDLE.start]
        if wait_from <= last:
            waiting[wait_from - first :, :, IDLE] = after[wait_from - 1 - low : last - low, :, IDLE]
        return waiting

    def _leave_flex(self, row: int, first: int, last: int, started_from: int, started: Array | None) -> None:
        """A flex-start VM gives way to Spot as one on demand does."""
        spot_from = max(first, self.spot_from[0])
        if started is None or spot_from > last:
            return
        flex = self.table[row, spot_from : last + 1, FLEX.start : FLEX.start + BINS]
        np.minimum(flex, started[spot_from - started_from :], out=flex)

    def _grant(self, row: int, first: int, last: int) -> None:
        problem = self.problem
        granted = self.table[row, first : last + 1, GRANTED]
        works_h = (row - np.arange(first, last + 1)) * problem.step_h
        granted[:] = (problem.on_demand_price * (works_h + problem.start_h))[:, None]
        start_from = max(first, self.start_from)
        if start_from <= last:
            begun = self.earlier(row, start_from, last, self.whole, self.part, FLEX) @ self.any_start
            granted[start_from - first :] = begun + self.price * problem.start_h


def _asked_step(stepping: Moves, granting: Array) -> Array:
    """The chances of a step as one matrix: from the layers of a request, and G, to the layers of a request."""
    mixing = np.zeros((_ASKED.stop - _ASKED.start, AGES * LAYER))
    of_layer = np.zeros((LAYER, LAYER))
    of_layer[SPOT, SPOT] = stepping.stay.T
    of_layer[IDLE, SPOT] = stepping.fail.T
    of_layer[ON_DEMAND, ON_DEMAND] = stepping.any.T
    of_layer[IDLE, IDLE] = stepping.any.T
    of_grant = np.hstack(
        (np.hstack((stepping.stay, np.zeros((BINS, BINS)))).T + stepping.fail.T, stepping.any.T, stepping.any.T)
    )
    for now in range(AGES):
        columns = slice(now * LAYER, (now + 1) * LAYER)
        for later in range(AGES):
            mixing[later * LAYER : (later + 1) * LAYER, columns] = granting[now, later] * of_layer
        mixing[GRANTED.start - LAYER : GRANTED.stop - LAYER, columns] = granting[now, AGES] * of_grant
    return mixing
