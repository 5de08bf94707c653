"""Estimates the cost of a job with a deadline: the policy's own runs over zones drawn from their hazards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from costguard.deadlines.hazards import BIN_STARTS, NO_COUNTS, ByAge, Hazards, ZoneCounts, bin_of, hazards_of
from costguard.deadlines.market import NoZones, RecordedMarket
from costguard.deadlines.run import Task, WaitAt, granted_at_once, replay_run
from costguard.deadlines.series import ZoneSeries
from costguard.deadlines.situation import Policy
from costguard.deadlines.waits import drawn_wait

RUNS = 32
_LEAST_GAP_H = 0.1
_POINTS = 240  # of a run, at most
_WARM_H = 24.0  # that a zone has been going on for when the job begins


class ExpectedCost(NamedTuple):
    """The cost in the unit of the prices: the mean, and the range of nine of ten runs. Shares are of the runs."""

    mean: float
    low: float
    high: float
    on_demand_share: float  # that needed an on-demand VM
    late_share: float
    preemptions: float  # in the mean
    runs: int


class PricedZone(NamedTuple):
    """`counts` is what was seen of it: it is drawn by them, and the policy knows them."""

    name: str
    price: float
    counts: ZoneCounts = NO_COUNTS


def expected_cost(
    task: Task,
    zones: Sequence[PricedZone],
    policy: Policy,
    runs: int = RUNS,
    seed: int = 1,
) -> ExpectedCost | None:
    """The same seed gives the same figures. None where there is no zone to draw, and no flex-start VM to ask for.

    Requests for flex-start wait as the task's own counts make likely.
    """
    if not (zones or task.flex is not None) or task.work_h <= 0:
        return None
    gap_h = max(_LEAST_GAP_H, task.deadline_h / _POINTS)
    points = math.ceil((task.deadline_h + task.work_h + task.start_h + task.apart_h) / gap_h) + 2
    counts = {zone.name: zone.counts for zone in zones}
    lot = Random(seed)
    results = []
    for run in range(runs):
        series = [
            ZoneSeries(zone.name, "", gap_h * 3600, _drawn(hazards_of(zone.counts), gap_h, points, lot), (zone.price,))
            for zone in zones
        ]
        market = RecordedMarket(series, zones[0].price, counts=counts) if series else NoZones(gap_h, points)
        results.append(replay_run(task, market, 0, policy, _wait_at(task, seed, run)))
    costs = sorted(result.cost for result in results)
    return ExpectedCost(
        sum(costs) / runs,
        costs[int(0.05 * (runs - 1))],
        costs[math.ceil(0.95 * (runs - 1))],
        sum(result.on_demand_h > 0 for result in results) / runs,
        sum(not result.is_on_time for result in results) / runs,
        sum(result.preemptions for result in results) / runs,
        runs,
    )


def _wait_at(task: Task, seed: int, run: int) -> WaitAt:
    if task.flex is None:
        return granted_at_once
    return partial(drawn_wait, task.flex.waits, task.flex.longest_wait_h, seed * 1_000_003 + run)


def _drawn(hazards: Hazards, gap_h: float, points: int, lot: Random) -> tuple[bool, ...]:
    """Up or not at each point; what came before the job is drawn too, so that zones begin at any age."""
    is_up, age_h = lot.random() < 0.5, 0.0
    warm = math.ceil(_WARM_H / gap_h)
    ups: list[bool] = []
    for point in range(warm + points):
        if point >= warm:
            ups.append(is_up)
        if lot.random() < 1 - math.exp(-_passed(hazards.preemption if is_up else hazards.recovery, age_h, gap_h)):
            is_up, age_h = not is_up, 0.0
        else:
            age_h += gap_h
    return tuple(ups)


def _passed(hazard: ByAge, age_h: float, hours: float) -> float:
    """The hazard that is gone through from this age on. A step is short: two bins at most are looked at."""
    first, last = bin_of(age_h), bin_of(age_h + hours)
    if first == last:
        return hazard[first] * hours
    border = BIN_STARTS[last]
    return hazard[first] * (border - age_h) + hazard[last] * (age_h + hours - border)
