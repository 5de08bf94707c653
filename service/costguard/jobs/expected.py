"""What a job with a deadline is expected to cost, before it is launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType

from costguard.deadlines.expected import ExpectedCost, PricedZone, expected_cost
from costguard.deadlines.hazards import NO_COUNTS, ZoneCounts
from costguard.deadlines.planner import Planner
from costguard.deadlines.run import Task
from costguard.jobs.offers import HourlyRates
from costguard.jobs.work_left import APART, ENDS, START
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import Recipe
from costguard.model.money import Money

_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)
_NANOS = 10**9
NOTHING_SEEN: Mapping[str, ZoneCounts] = MappingProxyType({})
_MOST_ZONES = 6  # the cheapest


@dataclass(frozen=True, slots=True)
class ExpectedJobCost:
    """Of replayed plans: the mean, and what nine of ten of them lie between. Disks and machines, without data."""

    mean: Money
    low: Money
    high: Money
    on_demand_percent: int  # of the runs that needed an on-demand VM
    preemptions: float
    runs: int


def expected_job_cost(
    spec: JobSpec,
    recipe: Recipe | None,
    rates: HourlyRates,
    now: datetime,
    start: timedelta = START,
    counts: Mapping[str, ZoneCounts] = NOTHING_SEEN,
) -> ExpectedJobCost | None:
    """None without a deadline that can be kept, or where no price is known. `counts` is what was seen of zones."""
    if recipe is None or spec.deadline is None or spec.work is None or spec.kind is not JobKind.TRAINING:
        return None
    if recipe.provisioning_model is not ProvisioningModel.SPOT or not recipe.falls_back_to_on_demand:
        return None
    spot = [(rate.total, zone) for (zone, model), rate in rates.items() if model is ProvisioningModel.SPOT]
    usual = [rate.total for (_, model), rate in rates.items() if model is ProvisioningModel.STANDARD]
    priced = sorted((total.nanos / _NANOS, zone) for total, zone in spot if total is not None)[:_MOST_ZONES]
    on_demand = min((total.nanos / _NANOS for total in usual if total is not None), default=None)
    time_left = (spec.deadline - ENDS - now) // _MINUTE * _MINUTE  # the same for a minute
    if not priced or on_demand is None or spec.work <= timedelta() or time_left < spec.work + start:
        return None
    apart = APART if spec.checkpoint is not None and not spec.checkpoint.is_on_disk else spec.work
    figures = _expected(
        spec.work / _HOUR,
        time_left / _HOUR,
        start / _HOUR,
        apart / _HOUR,
        on_demand,
        tuple(PricedZone(zone, rate, counts.get(zone, NO_COUNTS)) for rate, zone in priced),
    )
    if figures is None:
        return None
    return ExpectedJobCost(
        _money(figures.mean),
        _money(figures.low),
        _money(figures.high),
        round(100 * figures.on_demand_share),
        figures.preemptions,
        figures.runs,
    )


@lru_cache(maxsize=256)
def _expected(
    work_h: float, deadline_h: float, start_h: float, apart_h: float, on_demand: float, zones: tuple[PricedZone, ...]
) -> ExpectedCost | None:
    """Remembered, as a form asks for the same again and again; it takes up to half a second."""
    task = Task(work_h, deadline_h, start_h, on_demand, apart_h)
    return expected_cost(task, zones, Planner())


def _money(amount: float) -> Money:
    return Money(round(amount * _NANOS))
