"""Estimates the cost of a job with a deadline, and its first step, before it is launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from costguard.deadlines.expected import ExpectedCost, PricedZone, expected_cost
from costguard.deadlines.hazards import NO_COUNTS, ZoneCounts
from costguard.deadlines.planner import Planner
from costguard.deadlines.run import Task
from costguard.deadlines.situation import Act, FlexOffer, Situation, Zone
from costguard.deadlines.waits import NO_WAITS, WaitCounts
from costguard.jobs.decide.buy.plan_words import reason_text
from costguard.jobs.decide.buy.ways import flex_offer
from costguard.jobs.decide.measures.work_left import APART, ENDS, INTERVAL, START, keeps_nothing
from costguard.jobs.submit.cost.offers import HourlyRates
from costguard.model.buying import models_of
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobKind, JobSpec, Terms
from costguard.model.launch import Recipe
from costguard.model.money import Money

_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)
_NANOS = 10**9
_MOST_ZONES = 6  # the cheapest
_SAVES = Terms().waiting_saves


@dataclass(frozen=True, slots=True)
class SeenPlaces:
    """The rates of the places, and what was seen there: of zones, and of requests of flex-start."""

    rates: HourlyRates
    counts: Mapping[str, ZoneCounts] = field(default_factory=dict)
    waits: WaitCounts = NO_WAITS


@dataclass(frozen=True, slots=True)
class ExpectedJobCost:
    """The cost over replayed plans: the mean, and the range of nine of ten of them.

    Disks and machines, without data.
    """

    mean: Money
    low: Money
    high: Money
    on_demand_percent: int  # of the runs that needed an on-demand VM
    preemptions: float
    runs: int


def expected_job_cost(
    spec: JobSpec,
    recipe: Recipe | None,
    places: SeenPlaces,
    now: datetime,
    start: timedelta = START,
    waiting_saves: int = _SAVES,
    lost: timedelta | None = None,
) -> ExpectedJobCost | None:
    """Replays plans; None without a deadline that can be kept, or where no price is known.

    `lost` is the time that an announced preemption costs: that of a save which fits in its notice; None: what was done
    since the last save.
    """
    task, zones = _task(spec, recipe, places, now, start), _zones(places)
    if task is not None and lost is not None and not keeps_nothing(spec.checkpoint):
        task = task._replace(save_h=lost / _HOUR)
    if task is None or not zones:
        return None
    figures = _expected(task, zones, waiting_saves / 100)
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


def unusual_beginning(
    spec: JobSpec,
    recipe: Recipe | None,
    places: SeenPlaces,
    now: datetime,
    start: timedelta = START,
    waiting_saves: int = _SAVES,
) -> str | None:
    """Explains why a job with a deadline would not begin on Spot at once, though there is Spot; None where it would."""
    task, zones = _task(spec, recipe, places, now, start), _zones(places)
    if task is None or not zones:
        return None
    situation = Situation(
        task.work_h,
        task.deadline_h,
        task.start_h + task.apart_h,
        INTERVAL / _HOUR,
        task.on_demand_price,
        tuple(Zone(zone.name, zone.price, None, None, zone.counts) for zone in zones),
        total_work_h=task.work_h,
        loss_h=task.apart_h,
        flex=task.flex,
    )
    choice = Planner(explains=True, waiting_saves=waiting_saves / 100).choose(situation)
    return None if choice.act is Act.START_SPOT else f"Its plan begins with {reason_text(choice, situation, now)}."


def _task(spec: JobSpec, recipe: Recipe | None, places: SeenPlaces, now: datetime, start: timedelta) -> Task | None:
    """Makes the task; None where no plan between Spot and on-demand is made for it, or the deadline cannot be kept."""
    if recipe is None or spec.deadline is None or spec.work is None or spec.kind is not JobKind.TRAINING:
        return None
    models = models_of(recipe)
    if ProvisioningModel.SPOT not in models or ProvisioningModel.STANDARD not in models:
        return None
    usual = [rate.total for (_, model), rate in places.rates.items() if model is ProvisioningModel.STANDARD]
    on_demand = min((total.nanos / _NANOS for total in usual if total is not None), default=None)
    time_left = (spec.deadline - ENDS - now) // _MINUTE * _MINUTE  # the same for a minute
    if on_demand is None or spec.work <= timedelta() or time_left < spec.work + start:
        return None
    apart = spec.work if keeps_nothing(spec.checkpoint) else APART
    flex = _flex(recipe, places)
    return Task(spec.work / _HOUR, time_left / _HOUR, start / _HOUR, on_demand, apart / _HOUR, flex=flex)


def _flex(recipe: Recipe, places: SeenPlaces) -> FlexOffer | None:
    """The cheapest offer of flex-start, with its waits as far as they were seen; None without one."""
    if ProvisioningModel.FLEX_START not in models_of(recipe):
        return None
    totals = [rate.total for (_, model), rate in places.rates.items() if model is ProvisioningModel.FLEX_START]
    price = min((total.nanos / _NANOS for total in totals if total is not None), default=None)
    return None if price is None else flex_offer(recipe, price, places.waits)


def _zones(places: SeenPlaces) -> tuple[PricedZone, ...]:
    """The cheapest on Spot."""
    spot = [(rate.total, zone) for (zone, model), rate in places.rates.items() if model is ProvisioningModel.SPOT]
    priced = sorted((total.nanos / _NANOS, zone) for total, zone in spot if total is not None)[:_MOST_ZONES]
    return tuple(PricedZone(zone, rate, places.counts.get(zone, NO_COUNTS)) for rate, zone in priced)


@lru_cache(maxsize=256)
def _expected(task: Task, zones: tuple[PricedZone, ...], waiting_saves: float) -> ExpectedCost | None:
    """Remembered, as a form asks for the same again and again; it takes up to two seconds and 250 MB."""
    return expected_cost(task, zones, Planner(waiting_saves=waiting_saves))


def _money(amount: float) -> Money:
    return Money(round(amount * _NANOS))
