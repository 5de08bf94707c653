"""Computes the cost of a job with all of the record known in advance: the bound that no policy can beat.

A dynamic programme backwards over the points of the record, and over slack in steps of one point. With that step,
waiting is exact; a start takes `start_h` of slack, between two steps in general, and is interpolated. Runs of one task
are solved together, as one set of operations on whole arrays for each point. A flex-start VM may begin wherever any
request that the run could have made is granted, with several open at once, and it lasts: both are in its favour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from costguard.deadlines.run import Market, Task, WaitAt

Array = np.ndarray[Any, np.dtype[np.float64]]

LEAST_GAP_H = 0.04  # finer records are read at a multiple of their gap: up where all points of it are
NEVER = 1e12
AT_ONCE = 64  # runs


def optimum_costs(task: Task, market: Market, starts: Sequence[int], waits: Sequence[WaitAt] = ()) -> list[float]:
    """The least cost of the task from each start, in the unit of the prices. The record must reach each deadline."""
    if task.on_demand_price is None:
        raise ValueError("The optimum needs an on-demand price, as without one no deadline is certain.")
    merged = max(1, round(LEAST_GAP_H / market.gap_h))
    gap_h = market.gap_h * merged
    points = math.ceil(task.deadline_h / gap_h - 1e-9)
    slack_h = task.deadline_h - task.work_h
    lost_h = points * gap_h - task.deadline_h  # the record's last point may reach beyond the deadline
    names = [zone.name for zone in market.zones(0)]
    whole = np.array([[market.is_up(name, point) for name in names] for point in range(market.points)])
    price = np.array([[market.price(name, point) for name in names] for point in range(market.points)])
    costs = []
    for place in range(0, len(starts), AT_ONCE):
        ups, prices = _records(whole, price, starts[place : place + AT_ONCE], points, merged)
        granted = _granted(
            task, starts[place : place + AT_ONCE], waits[place : place + AT_ONCE], points, merged, market
        )
        costs.extend(_solve(task, ups, prices, granted, gap_h, slack_h + lost_h, lost_h))
    return costs


def _granted(
    task: Task, starts: Sequence[int], waits: Sequence[WaitAt], points: int, merged: int, market: Market
) -> Array:
    """Returns, for each point and run, whether some request is granted then. Without `waits`, any is at once."""
    granted = np.zeros((points, len(starts)), dtype=bool)
    if task.flex is None:
        return granted
    if not waits:
        return ~granted
    for run, (start, wait_at) in enumerate(zip(starts, waits, strict=True)):
        for point in range(points * merged):
            wait_h = wait_at(start + point)
            if wait_h is None or wait_h > task.flex.longest_wait_h:
                continue
            at = (point + math.ceil(wait_h / market.gap_h - 1e-9)) // merged
            if at < points:
                granted[at, run] = True
    return granted


def _records(whole: Array, price: Array, starts: Sequence[int], points: int, merged: int) -> tuple[Array, Array]:
    """Returns, for each point, run and zone, whether it is up, and its price."""
    ups, prices = [], []
    for start in starts:
        places = np.minimum(start + np.arange(points * merged), len(whole) - 1).reshape(points, merged)
        ups.append(whole[places].all(axis=1))
        prices.append(price[places].mean(axis=1))
    return np.stack(ups, axis=1), np.stack(prices, axis=1)


def _solve(
    task: Task, ups: Array, prices: Array, granted: Array, gap_h: float, slack_h: float, lost_h: float
) -> list[float]:
    """`lost_h` of the slack cannot be used: it lies after the deadline."""
    points, runs, zones = ups.shape
    steps = math.ceil(slack_h / gap_h - 1e-9) + 1
    slacks = np.arange(steps) * gap_h
    on_demand = task.on_demand_price
    assert on_demand is not None
    # At the end, a job with no work left costs nothing more; one with slack below zero is late.
    idle = np.where(slacks >= lost_h - 1e-9, 0.0, NEVER)[None, :].repeat(runs, axis=0)
    held = idle.copy()
    flex = idle.copy()
    flex_price = NEVER if task.flex is None else task.flex.price
    spot = [idle.copy() for _ in range(zones)]
    for point in range(points - 1, -1, -1):
        left_h = (points - point) * gap_h - slacks  # the work left at this point, by slack
        hours = np.clip(left_h, 0.0, gap_h)
        run_held = held + hours * on_demand
        run_spot = []
        for zone in range(zones):
            cost = spot[zone] + hours * prices[point, :, zone, None]
            run_spot.append(np.where(ups[point, :, zone, None] | (hours <= 0), cost, NEVER))
        best = run_held
        for cost in run_spot:
            best = np.minimum(best, cost)
        run_flex = flex + hours * flex_price
        best = np.minimum(best, np.where(granted[point][:, None], run_flex, NEVER))
        begun = _less_slack(best, task.start_h / gap_h)
        waited = np.full_like(idle, NEVER)
        waited[:, 1:] = idle[:, :-1]
        waited[:, hours <= 0] = 0.0
        anything = np.minimum(begun, waited)
        idle = anything
        held = np.minimum(run_held, anything)
        flex = np.minimum(run_flex, anything)
        spot = [np.minimum(cost, anything) for cost in run_spot]
    place = slack_h / gap_h
    below = min(math.floor(place + 1e-9), steps - 1)
    part = place - below
    at = idle[:, below] if part < 1e-9 else (1 - part) * idle[:, below] + part * idle[:, min(below + 1, steps - 1)]
    return [float(cost) for cost in at]


def _less_slack(costs: Array, steps: float) -> Array:
    """The costs with so many steps less of slack; where that is below zero, never."""
    whole = math.floor(steps + 1e-9)
    part = steps - whole
    shifted = np.full_like(costs, NEVER)
    if part < 1e-9:
        shifted[:, whole:] = costs[:, : costs.shape[1] - whole]
        return shifted
    if whole + 1 <= costs.shape[1]:
        low = costs[:, : costs.shape[1] - whole - 1]
        high = costs[:, 1 : costs.shape[1] - whole]
        shifted[:, whole + 1 :] = np.where(low >= NEVER, NEVER, part * low + (1 - part) * high)
    return shifted
