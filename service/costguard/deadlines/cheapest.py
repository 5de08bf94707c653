"""Estimates what a job without a deadline costs to its end: on Spot, flex-start, on demand and a reservation.

Waits cost nothing but time. A Spot VM is lost by the hazards of its zone, and then the job goes on in the cheapest zone
that is up, or waits for one: what restarts cost and undo is in the figures. They are the mean and the range of runs
that are drawn, always the same ones; money and words are the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Literal, NamedTuple

from costguard.deadlines.hazards import (
    BIN_STARTS,
    BINS,
    ByAge,
    Hazards,
    expected_life,
    hazards_of,
    stationary_ages,
)
from costguard.deadlines.situation import FlexOffer, Zone
from costguard.deadlines.spot_alone import age_h_of
from costguard.deadlines.waits import drawn_wait

RUNS = 200
MOST_VMS = 2000  # that a run may lose before it counts as one without an end
_LAST_BIN_H = 48.0  # how much of the last age bin is drawn from
_TIED: dict[str, int] = {"reserved": 0, "on_demand": 1, "flex": 2, "spot": 3}  # of one price, the surest comes first


class ToFinish(NamedTuple):
    """A job's work. `start_h`: of each VM without any work. `apart_h`: hours of work between two saves.

    A preemption undoes half of that in the mean; 0 where nothing is lost, infinite where nothing is saved.
    """

    work_h: float
    start_h: float
    apart_h: float = 0.0


class Way(NamedTuple):
    """A way to finish, in the unit of the prices: the mean, and the range of nine of ten runs.

    `lasts_h`: hours until the end in the mean, waits included. `zone`: of the first Spot VM. `preemptions`: in the
    mean. `expected` None: some run came to no end, as VMs are lost sooner than the work between two saves is done.
    """

    kind: Literal["spot", "flex", "on_demand", "reserved"]
    expected: float | None
    low: float
    high: float
    lasts_h: float
    zone: str = ""
    preemptions: float = 0.0


def ways_to_finish(
    job: ToFinish,
    zones: Sequence[Zone] = (),
    flex: FlexOffer | None = None,
    on_demand_price: float | None = None,
    reserved_price: float | None = None,
    seed: int = 1,
) -> list[Way]:
    """Every way that is open, the cheapest by expected cost first, and those without an end last.

    Prices are of an hour; None, or no zones, where the job may not have such a VM. A reservation that is paid for
    whether it is used or not costs 0.
    """
    ways = []
    if zones:
        ways.append(_on_spot(job, zones, seed))
    if flex is not None:
        ways.append(_on_flex(job, flex, seed))
    always: tuple[tuple[Literal["on_demand", "reserved"], float | None], ...] = (
        ("on_demand", on_demand_price),
        ("reserved", reserved_price),
    )
    for kind, price in always:
        if price is not None:
            hours = job.work_h + job.start_h
            ways.append(Way(kind, price * hours, price * hours, price * hours, hours))
    return sorted(ways, key=lambda way: (math.inf if way.expected is None else way.expected, _TIED[way.kind]))


class _Drawn(NamedTuple):
    cost: float
    lasts_h: float
    preemptions: int


def _on_flex(job: ToFinish, flex: FlexOffer, seed: int) -> Way:
    """A VM that ends before the work does has saved it, and is followed by another, which was asked for before."""
    work_of_one_h = flex.longest_run_h - job.start_h
    if work_of_one_h <= 0:
        return Way("flex", None, math.inf, math.inf, math.inf)
    hours = job.work_h + math.ceil(job.work_h / work_of_one_h - 1e-9) * job.start_h
    waited_h = sum(_wait_h(flex, seed * 1_000_003 + run) for run in range(RUNS)) / RUNS
    cost = flex.price * hours
    return Way("flex", cost, cost, cost, waited_h + hours)


def _wait_h(flex: FlexOffer, run: int) -> float:
    """Hours until a VM is granted; a request that ends in vain is made again at once, a hundred times at most."""
    for refused in range(100):
        hours = drawn_wait(flex.waits, flex.longest_wait_h, run, refused)
        if hours is not None:
            return refused * flex.longest_wait_h + hours
    return 100 * flex.longest_wait_h


def _on_spot(job: ToFinish, zones: Sequence[Zone], seed: int) -> Way:
    lot = Random(seed)
    market = _Zones(job, zones)
    first = market.best([(zone, age_h_of(zone)) for zone in zones if zone.is_up is not False], job.work_h)
    name = first[0].name if first is not None else ""
    runs: list[_Drawn] = []
    for _ in range(RUNS):
        run = _run_on_spot(job, market, first, lot)
        if run is None:
            return Way("spot", None, math.inf, math.inf, math.inf, name)
        runs.append(run)
    costs = sorted(run.cost for run in runs)
    low, high = costs[int(0.05 * (RUNS - 1))], costs[math.ceil(0.95 * (RUNS - 1))]
    lasts_h, preemptions = sum(run.lasts_h for run in runs) / RUNS, sum(run.preemptions for run in runs) / RUNS
    return Way("spot", sum(costs) / RUNS, low, high, lasts_h, name, preemptions)


def _run_on_spot(job: ToFinish, market: _Zones, first: tuple[Zone, float] | None, lot: Random) -> _Drawn | None:
    """Draws a run to its end; None where it has none."""
    cost = lasts_h = 0.0
    left_h = job.work_h
    place = first
    lost: Zone | None = None
    for preemptions in range(MOST_VMS):
        if place is None:
            zone, waited_h = market.next_back(lost, lot)
            lasts_h += waited_h
            place = (zone, 0.0)
        zone, age_h = place
        life_h = market.life(zone, age_h, lot)
        hours = min(life_h, job.start_h + left_h)
        cost += hours * zone.price + zone.move_cost * (preemptions > 0)
        lasts_h += hours
        if life_h >= job.start_h + left_h:
            return _Drawn(cost, lasts_h, preemptions)
        done_h = max(0.0, life_h - job.start_h)
        left_h -= max(0.0, done_h - lot.random() * job.apart_h) if math.isfinite(job.apart_h) else 0.0
        lost, place = zone, market.best(market.others_up(zone, lot), left_h)
    return None


class _Zones:
    """Zones by their hazards: how long a VM lives there, and which are up when one was lost."""

    def __init__(self, job: ToFinish, zones: Sequence[Zone]) -> None:
        self._job = job
        self._zones = zones
        self._hazards = {zone.name: hazards_of(zone.counts) for zone in zones}
        self._up_share = {zone.name: _up_share(self._hazards[zone.name]) for zone in zones}

    def best(self, places: Sequence[tuple[Zone, float]], left_h: float) -> tuple[Zone, float] | None:
        """The zone, with its age, where an hour of work costs least, the start of its VM included."""
        return min(places, key=lambda place: self._cost_of_hour(place[0], place[1], left_h), default=None)

    def _cost_of_hour(self, zone: Zone, age_h: float, left_h: float) -> float:
        start_h = self._job.start_h
        hours = min(expected_life(self._hazards[zone.name].preemption, age_h), left_h + start_h)
        return (zone.price * hours + zone.move_cost) / (hours - start_h) if hours > start_h else math.inf

    def others_up(self, lost: Zone, lot: Random) -> list[tuple[Zone, float]]:
        """Every other zone that is up by its share of time, with an age as they are at any one moment."""
        return [
            (zone, _age_h(self._hazards[zone.name].preemption, lot))
            for zone in self._zones
            if zone.name != lost.name and lot.random() < self._up_share[zone.name]
        ]

    def life(self, zone: Zone, age_h: float, lot: Random) -> float:
        hazard = self._hazards[zone.name].preemption
        ended_h = _passed_at(hazard, BIN_STARTS, math.inf, age_h, _lot_of_hazard(lot))
        return math.inf if ended_h is None else ended_h - age_h

    def next_back(self, lost: Zone | None, lot: Random) -> tuple[Zone, float]:
        """The zone that comes back first, and after how long: each has been out since now or, before the first VM,
        as long as is known."""
        back = []
        for zone in self._zones:
            age_h = 0.0 if lost is not None else zone.age_h or 0.0
            hazard = self._hazards[zone.name].recovery
            ended_h = _passed_at(hazard, BIN_STARTS, math.inf, age_h, _lot_of_hazard(lot))
            back.append((math.inf if ended_h is None else ended_h - age_h, zone))
        hours, zone = min(back, key=lambda one: one[0])
        return zone, hours


def _lot_of_hazard(lot: Random) -> float:
    """Draws the hazard that a life passes before its end."""
    return -math.log(1 - lot.random())


def _passed_at(
    hazard: Sequence[float], starts: Sequence[float], end_h: float, age_h: float, much: float
) -> float | None:
    """The age at which so much hazard was passed, from an age on; None where it is not by the end."""
    for place, rate in enumerate(hazard):
        last_h = starts[place + 1] if place + 1 < len(starts) else end_h
        first_h, last_h = max(age_h, starts[place]), min(last_h, end_h)
        if first_h >= last_h:
            continue
        passes = rate * (last_h - first_h)
        if passes >= much and rate > 0:
            return first_h + much / rate
        much -= passes
    return None


def _age_h(hazard: ByAge, lot: Random) -> float:
    """An age of what is up at any one moment."""
    share = lot.random()
    for place, (part, start_h) in enumerate(zip(stationary_ages(hazard), BIN_STARTS, strict=True)):
        end_h = BIN_STARTS[place + 1] if place + 1 < BINS else start_h + _LAST_BIN_H
        if share < part:
            return start_h + share / part * (end_h - start_h)
        share -= part
    return BIN_STARTS[-1]


def _up_share(hazards: Hazards) -> float:
    """The share of time for which a zone is up."""
    up_h, out_h = expected_life(hazards.preemption, 0.0), expected_life(hazards.recovery, 0.0)
    if math.isinf(up_h):
        return 1.0
    return 0.0 if math.isinf(out_h) else up_h / (up_h + out_h)
