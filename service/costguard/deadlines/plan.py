"""The least expected cost of finishing a job from every state: a dynamic programme over work left, slack and age.

States: work left R and slack s on a grid of `step_h`; and x, the zone: up in one of the age bins, or all zones out in
one of the outage bins. Three tables: S, running on Spot; O, running on demand; N, without a VM. In a step, a zone of
bin b fails with 1 - exp(-hazard * step); then another is up with the chance `another_up`, its age by `found_ages`, else
all are out. An outage ends likewise, with a new zone. Running leaves s as it is, waiting and starts use it up.

A table holds all of S, O and N for R + s = t in row t, so that each row needs earlier rows alone and is one set of
operations on whole arrays. NumPy is imported with this module, which is imported by the first plan.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from costguard.deadlines.hazards import BIN_STARTS, BINS, ByAge, Hazards

Array = np.ndarray[Any, np.dtype[np.float64]]

STATES = 2 * BINS  # up by age, then out by age
SUBSTEP_H = 0.05
SPOT = slice(0, BINS)  # S, in the columns of a table
ON_DEMAND = slice(BINS, BINS + STATES)  # O
IDLE = slice(BINS + STATES, BINS + 2 * STATES)  # N
TINY = 1e-9


class Chances(NamedTuple):
    """The chances of the best zone.

    `another_up`: the chance that another is up when it fails, of the ages `found_ages`.
    """

    hazards: Hazards
    another_up: float = 0.0
    found_ages: ByAge = (1.0, *(0.0,) * (BINS - 1))


class FlexInput(NamedTuple):
    """Flex-start VMs in a plan: the price of an hour, and grants an hour by the age of a request."""

    price: float
    grants: tuple[float, ...]
    ages: tuple[float, ...]  # at which the ages begin, and the last of them ends, in hours


class PlanInput(NamedTuple):
    """Prices of an hour, in any unit; how much work and slack the tables cover; `loss_h` as in `Situation`.

    `flex` is for `flex_plan.solve_with_flex`, which alone looks at it.
    """

    spot_price: float
    on_demand_price: float
    start_h: float
    step_h: float
    work_steps: int
    slack_steps: int
    chances: Chances
    loss_h: float = 0.0
    flex: FlexInput | None = None


class Moves(NamedTuple):
    """The transitions between states in some hours. `stay`: held zones that survive; `fail`: the state after a loss."""

    any: Array  # 16 x 16, of a job without a Spot VM
    stay: Array  # 8 x 8
    fail: Array  # 8 x 16


class Plan(NamedTuple):
    problem: PlanInput
    table: Array  # [R + s, s, S O N]
    starting: Moves  # over a start
    stepping: Moves
    granting: Array | None = None  # with flex-start: from each age of a request to those, and to its grant, in a step

    def value(self, columns: slice, work_h: float, slack_h: float) -> Array:
        """Returns the value between the points of the grid; beyond its edges, the value at the edge."""
        i, f = _split(work_h / self.problem.step_h, self.problem.work_steps)
        j, g = _split(slack_h / self.problem.step_h, self.problem.slack_steps)
        table = self.table
        low = (1 - f) * table[i + j, j, columns] + f * table[i + 1 + j, j, columns]
        if g == 0:
            return low
        high = (1 - f) * table[i + j + 1, j + 1, columns] + f * table[i + j + 2, j + 1, columns]
        return (1 - g) * low + g * high


def solve(problem: PlanInput) -> Plan:
    """Fills the tables: about 20 operations on arrays for each R + s."""
    starting = moves_of(problem.chances, problem.start_h)
    stepping = moves_of(problem.chances, problem.step_h)
    works, slacks = problem.work_steps, problem.slack_steps
    table = np.zeros((works + slacks + 1, slacks + 1, BINS + 2 * STATES))
    rows = PlanRows(problem, starting, stepping, table)
    for row in range(1, works + slacks + 1):
        rows.fill(row)
    return Plan(problem, table, starting, stepping)


class PlanRows:
    """Fills a table row by row, as far as Spot, on-demand and waiting go."""

    def __init__(self, problem: PlanInput, starting: Moves, stepping: Moves, table: Array) -> None:
        self.problem, self.table = problem, table
        step_h, start_h = problem.step_h, problem.start_h
        self.stay_step = stepping.stay.T.copy()
        self.idle_step = np.hstack((stepping.any.T, stepping.fail.T))
        self.any_step = stepping.any.T.copy()
        self.stay_start = starting.stay.T.copy()
        self.fail_start = starting.fail.T.copy()
        self.any_start = starting.any.T.copy()
        survives = starting.stay.sum(axis=1)
        self.start_cost = problem.spot_price * start_h * (survives + (1 - survives) / 2)
        self.whole, self.part = parts_of(start_h / step_h)
        self.half, self.half_part = parts_of(start_h / 2 / step_h)
        # Slack steps that a start on Spot needs: instead of an on-demand VM, and without a VM.
        self.spot_from = tuple(math.ceil(h / step_h - TINY) for h in (2 * start_h, 2 * start_h - problem.loss_h))
        self.start_from = math.ceil(start_h / step_h - TINY)
        self.wait_from = math.ceil(start_h / step_h + 1 - TINY)

    def fill(self, row: int) -> None:
        """All states whose work and slack add up to this row, but those without work, which cost nothing."""
        problem = self.problem
        first, last = max(0, row - problem.work_steps), min(row - 1, problem.slack_steps)
        self.run(row, first, last)
        self.start_spot(row, first, last)
        self.start_on_demand(row, first, last)

    def run(self, row: int, first: int, last: int) -> None:
        """Lets what is held run on for a step, or waits without a VM."""
        problem, table = self.problem, self.table
        low = max(first - 1, 0)
        idled = table[row - 1, low : last + 1, IDLE] @ self.idle_step  # without a VM, a step later
        before = table[row - 1, first : last + 1]
        now = table[row, first : last + 1]
        now[:, SPOT] = before[:, SPOT] @ self.stay_step
        now[:, SPOT] += idled[first - low :, STATES:]
        now[:, SPOT] += problem.spot_price * problem.step_h
        on_demand, idle = now[:, ON_DEMAND], now[:, IDLE]
        np.matmul(before[:, ON_DEMAND], self.any_step, out=on_demand)
        on_demand += problem.on_demand_price * problem.step_h
        idle[:] = (problem.on_demand_price * ((row - np.arange(first, last + 1)) * problem.step_h + problem.start_h))[
            :, None
        ]
        wait_from = max(first, self.wait_from)
        if wait_from <= last:
            wait = idled[wait_from - 1 - low : last - low, :STATES]
            for table_part in (on_demand[wait_from - first :], idle[wait_from - first :]):
                np.minimum(table_part, wait, out=table_part)

    def start_on_demand(self, row: int, first: int, last: int) -> None:
        problem = self.problem
        idle = self.table[row, first : last + 1, IDLE]
        start_from = max(first, self.start_from)
        if start_from <= last:
            begun = self.earlier(row, start_from, last, self.whole, self.part, ON_DEMAND) @ self.any_start
            begun += problem.on_demand_price * problem.start_h
            np.minimum(idle[start_from - first :], begun, out=idle[start_from - first :])

    def start_spot(self, row: int, first: int, last: int) -> tuple[int, Array | None]:
        """Starts on Spot where there is any. Returns their costs by age, and the slack from which on they are.

        A start that is lost within the first step leads back into this row: there, its value is that of a bit less
        slack, which is a little too high.
        """
        from_on_demand, from_idle = (max(first, steps) for steps in self.spot_from)
        if from_idle > last:
            return from_idle, None
        table = self.table
        if self.half == 0 and from_idle >= 1:
            idle = table[row, from_idle : last + 1, IDLE]
            np.minimum(idle, self._less_slack(row, from_idle, last), out=idle)
        start = self.earlier(row, from_idle, last, self.whole, self.part, SPOT) @ self.stay_start
        start += self.earlier(row, from_idle, last, self.half, self.half_part, IDLE) @ self.fail_start
        start += self.start_cost
        for columns, spot_from in ((ON_DEMAND, from_on_demand), (IDLE, from_idle)):
            up = table[row, spot_from : last + 1, columns.start : columns.start + BINS]
            np.minimum(up, start[spot_from - from_idle :], out=up)
        return from_idle, start

    def _less_slack(self, row: int, first: int, last: int) -> Array:
        return self.table[row - 1, first - 1 : last, IDLE]

    def earlier(self, row: int, first: int, last: int, steps: int, part: float, columns: slice) -> Array:
        """The same work with less slack, by so many steps and a part of one."""
        table = self.table
        near = table[row - steps, first - steps : last + 1 - steps, columns]
        if part == 0:
            return near
        far = table[row - steps - 1, first - steps - 1 : last - steps, columns]
        return near + part * (far - near)


def moves_of(chances: Chances, hours: float) -> Moves:
    """Returns the moves over any span: many short ones in a row, in each of which at most one thing happens."""
    count = max(1, math.ceil(hours / SUBSTEP_H))
    any_once, stay_once, fail_once = _short_moves(chances, hours / count)
    # One matrix of all three, so that a year of short moves is twenty products.
    once = np.block([[stay_once, fail_once], [np.zeros((STATES, BINS)), any_once]])
    after = np.linalg.matrix_power(once, count)
    return Moves(after[BINS:, BINS:], after[:BINS, :BINS], after[:BINS, BINS:])


def _short_moves(chances: Chances, hours: float) -> tuple[Array, Array, Array]:
    widths = np.diff(np.array((*BIN_STARTS, math.inf)))
    ages = np.minimum(1.0, hours / widths)
    stay, fail = np.zeros((BINS, BINS)), np.zeros((BINS, STATES))
    out = np.zeros((BINS, STATES))
    for place in range(BINS):
        older = min(place + 1, BINS - 1)
        lives = math.exp(-chances.hazards.preemption[place] * hours)
        stay[place, place] += lives * (1 - ages[place])
        stay[place, older] += lives * ages[place]
        fail[place, :BINS] = (1 - lives) * chances.another_up * np.array(chances.found_ages)
        fail[place, BINS] = (1 - lives) * (1 - chances.another_up)
        goes_on = math.exp(-chances.hazards.recovery[place] * hours)
        out[place, 0] = 1 - goes_on
        out[place, BINS + place] += goes_on * (1 - ages[place])
        out[place, BINS + older] += goes_on * ages[place]
    return np.vstack((np.hstack((stay, np.zeros((BINS, BINS)))) + fail, out)), stay, fail


def parts_of(steps: float) -> tuple[int, float]:
    whole = math.floor(steps + TINY)
    part = steps - whole
    return whole, part if part > TINY else 0.0


def _split(place: float, most: int) -> tuple[int, float]:
    """The grid point below, and how far beyond it: within the grid."""
    place = min(max(0.0, place), float(most))
    below = min(int(place), most - 1) if most else 0
    return below, place - below
