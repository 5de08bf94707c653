"""Replays policies on recorded series: many runs from random starts, the same for every policy.

Costs are relative to the work of the job on demand. The interval is that of the mean over the random starts, not over
other zones or years.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from statistics import fmean, stdev
from typing import NamedTuple

from costguard.deadlines.market import RecordedMarket
from costguard.deadlines.planner import Planner
from costguard.deadlines.run import RunResult, Task, WaitAt, replay_run
from costguard.deadlines.series import ZoneSeries, together
from costguard.deadlines.simple_policies import FlexAlone, Greedy, UniformProgress, WithoutFlex
from costguard.deadlines.situation import FlexOffer, Policy
from costguard.deadlines.waits import Waits, expected_waits
from costguard.errors import Invalid

PRICE_RATIO = 3.14  # on demand over Spot, where files name no prices: that of the recorded V100 on AWS
OPTIMUM = "optimum"
MakePolicy = Callable[[int], Policy]  # for one run, of this number


class ReplayTask(NamedTuple):
    """The task to replay. `zones`: the names of those that a job may use together; None: each zone alone.

    `price_ratio` None: the prices of the files, and `PRICE_RATIO` where they name none. `flex_price` and
    `reserved_price`: of an hour on a flex-start VM and on a reserved one, always there, as shares of an hour on
    demand; None where the job may have none. `waits`: of requests for flex-start VMs; the policies know them.
    """

    work_h: float
    deadline_h: float
    start_h: float
    zones: tuple[str, ...] | None = None
    price_ratio: float | None = None
    runs: int = 1000
    seed: int = 0
    flex_price: float | None = None
    reserved_price: float | None = None
    waits: Waits = Waits()


class PolicyResult(NamedTuple):
    """The result of one policy: the mean cost with its 95 % interval, the share of runs on time, and preemptions in a
    run.
    """

    policy: str
    relative_cost: float
    ci95: tuple[float, float]
    on_time: float
    preemptions: float
    runs: int

    def as_json(self) -> dict[str, object]:
        return self._asdict() | {"ci95": list(self.ci95)}


class Replay(NamedTuple):
    """The results, the cheapest last; what was replayed; and the recordings that are too short."""

    results: list[PolicyResult]
    recordings: list[str]
    left_out: list[str]


ALL_ZONES = ("all",)


def policies(*, with_flex: bool = False) -> dict[str, MakePolicy]:
    """Returns policies by name. The planner keeps its plans from run to run, as nothing of a run is in them.

    `with_flex`: those for flex-start too, and the planner as it is without.
    """
    planner = Planner()
    makers: dict[str, MakePolicy] = {
        "greedy": lambda _run: Greedy(),
        "uniform_progress": lambda _run: UniformProgress(),
    }
    if with_flex:
        without = WithoutFlex(planner, "planner_without_flex")
        flex_alone = FlexAlone()
        makers |= {without.name: lambda _run: without, flex_alone.name: lambda _run: flex_alone}
    return {**makers, "planner": lambda _run: planner}


def replay(series: Iterable[ZoneSeries], wanted: ReplayTask, policies: dict[str, MakePolicy]) -> Replay:
    """Runs every policy and the optimum from the same starts, shared out evenly among the recordings."""
    check(wanted)
    markets, left_out = _markets(series, wanted)
    costs: dict[str, list[float]] = {name: [] for name in policies}
    results: dict[str, list[RunResult]] = {name: [] for name in policies}
    costs[OPTIMUM] = []
    run = 0
    for place, (market, on_demand_price) in enumerate(markets):
        task = _task(wanted, on_demand_price)
        starts = _starts(market, wanted, place, len(markets))
        waits = [_waits(wanted, run + number) for number in range(1, len(starts) + 1)]
        whole = wanted.work_h * on_demand_price
        for start, wait_at in zip(starts, waits, strict=True):
            run += 1
            for name, make in policies.items():
                result = replay_run(task, market, start, make(wanted.seed * 1_000_003 + run), wait_at)
                results[name].append(result)
                costs[name].append(result.cost / whole)
        costs[OPTIMUM].extend(cost / whole for cost in _optimum(task, market, starts, waits))
    summaries = [_summary(name, costs[name], results[name]) for name in policies]
    best = PolicyResult(OPTIMUM, fmean(costs[OPTIMUM]), _interval(costs[OPTIMUM]), 1.0, 0.0, len(costs[OPTIMUM]))
    names = [" + ".join(market.names) for market, _ in markets]
    return Replay([*sorted(summaries, key=lambda one: -one.relative_cost), best], names, left_out)


def check(wanted: ReplayTask) -> None:
    """Invalid where no run could be on time, or there is nothing to run."""
    if not wanted.work_h > 0:
        raise Invalid(f"Work of {wanted.work_h:g} h is no work.", "Give a time above zero, such as --work 48h.")
    if wanted.start_h < 0:
        raise Invalid(
            f"A start cannot take {wanted.start_h:g} h.", "Give a time of zero or more, such as --overhead 0.2h."
        )
    if wanted.deadline_h < wanted.work_h + wanted.start_h:
        raise Invalid(
            f"A deadline of {wanted.deadline_h:g} h cannot be met, even on demand: work and one start take "
            f"{wanted.work_h + wanted.start_h:g} h.",
            f"Give a deadline of {wanted.work_h + wanted.start_h:g} h or more.",
        )
    if wanted.price_ratio is not None and not wanted.price_ratio > 0:
        raise Invalid(
            f"The price ratio {wanted.price_ratio:g} is not above zero.", "Give on-demand over Spot, such as 3.14."
        )
    for price, what in ((wanted.flex_price, "flex-start"), (wanted.reserved_price, "a reservation")):
        if price is not None and not price > 0:
            raise Invalid(
                f"The price {price:g} of an hour on {what} is not above zero.",
                "Give its share of the on-demand price, such as 0.55.",
            )
    if wanted.runs < 1:
        raise Invalid(f"{wanted.runs} runs are none.", "Give --runs 1 or more.")


def _markets(series: Iterable[ZoneSeries], wanted: ReplayTask) -> tuple[list[tuple[RecordedMarket, float]], list[str]]:
    """The markets with their on-demand prices, and the names of what is too short."""
    markets, left_out = [], []
    names: set[str] = set()
    for recording in together(series):
        names |= {one.name for one in recording}
        for zones in _choices(recording, wanted.zones):
            if min(one.hours for one in zones) < wanted.deadline_h + 2 * zones[0].gap_h:
                left_out.append(" + ".join(one.name for one in zones))
                continue
            priced, on_demand_price = _priced(zones, wanted.price_ratio)
            markets.append((RecordedMarket(priced, 1.0), on_demand_price))
    unknown = [name for name in wanted.zones or () if name not in names and wanted.zones != ALL_ZONES]
    if unknown:
        raise Invalid(f"No series is of the zone {unknown[0]}.", f"Name some of: {', '.join(sorted(names))}.")
    if not markets:
        raise Invalid(
            f"Every recording is shorter than the deadline of {wanted.deadline_h:g} h.", "Give an earlier deadline."
        )
    return markets, left_out


def _choices(recording: list[ZoneSeries], zones: tuple[str, ...] | None) -> list[list[ZoneSeries]]:
    if zones is None:
        return [[one] for one in recording]
    chosen = recording if zones == ALL_ZONES else [one for one in recording if one.name in zones]
    return [chosen] if chosen else []


def _priced(zones: Sequence[ZoneSeries], ratio: float | None) -> tuple[list[ZoneSeries], float]:
    """The zones with the prices to use, and the price of an hour on demand: the cheapest that any zone names."""
    has_prices = all(one.prices for one in zones)
    if ratio is not None or not has_prices:
        return [one._replace(prices=()) for one in zones], ratio if ratio is not None else PRICE_RATIO
    named = [one.on_demand_price for one in zones if one.on_demand_price is not None]
    return list(zones), min(named) if named else PRICE_RATIO * fmean(fmean(one.prices) for one in zones)


def _starts(market: RecordedMarket, wanted: ReplayTask, place: int, markets: int) -> list[int]:
    count = wanted.runs // markets + (place < wanted.runs % markets)
    random = Random(f"{wanted.seed} {' '.join(market.names)}")
    last = market.points - math.ceil(wanted.deadline_h / market.gap_h) - 1
    return [random.randrange(0, max(1, last)) for _ in range(count)]


def _task(wanted: ReplayTask, on_demand_price: float) -> Task:
    """A reserved VM is one on demand that is paid for at its own price."""
    flex_price = wanted.flex_price
    waits = expected_waits(wanted.waits)
    flex = None if flex_price is None else FlexOffer(flex_price * on_demand_price, waits)
    always = on_demand_price * min(1.0, wanted.reserved_price if wanted.reserved_price is not None else 1.0)
    return Task(wanted.work_h, wanted.deadline_h, wanted.start_h, always, flex=flex)


def _waits(wanted: ReplayTask, run: int) -> WaitAt:
    lot = wanted.seed * 1_000_003 + run
    return lambda point: wanted.waits.drawn(lot, point)


def _optimum(task: Task, market: RecordedMarket, starts: Sequence[int], waits: Sequence[WaitAt]) -> list[float]:
    from costguard.deadlines.optimum import optimum_costs  # NumPy takes 0.1 s to import

    return optimum_costs(task, market, starts, waits)


def _summary(name: str, costs: Sequence[float], results: Sequence[RunResult]) -> PolicyResult:
    on_time = fmean(result.is_on_time for result in results)
    preemptions = fmean(result.preemptions for result in results)
    return PolicyResult(name, fmean(costs), _interval(costs), on_time, preemptions, len(costs))


def _interval(costs: Sequence[float]) -> tuple[float, float]:
    mean = fmean(costs)
    half = 1.96 * stdev(costs) / math.sqrt(len(costs)) if len(costs) > 1 else math.inf
    return (mean - half, mean + half)
