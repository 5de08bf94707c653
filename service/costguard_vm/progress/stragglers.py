"""Finds the worker of a distributed training that is slower than usual, and from when to when. Pure.

In synchronous training all wait for the slowest. Workers that differ steadily are uneven, which is no change: what
counts as straggling is a worker against the others at the same time, by what it usually is against them. Tested on
Alibaba's recordings of two jobs (clusterdata, cluster-trace-gpu-v2020).
"""

from __future__ import annotations

from statistics import median
from typing import Mapping, NamedTuple, Sequence

SLOWER = 1.25  # than usual against the others
UNEVEN = 1.10  # the slowest worker's median, of the mean of all
LEAST_WORKERS = 3  # with two nobody can say which of them changed
_WINDOW, _MOST_OF_IT = 8, 5  # looks: so many of so many in a row are slower
_LEAST_LOOKS = 20


class StepTime(NamedTuple):
    """`at` orders the looks: a time or a step. `took` is in any unit, the same for all."""

    worker: str
    at: float
    took: float


class Straggling(NamedTuple):
    """A stretch of one worker. `begins` and `ends` are shares of the run, `times` the mean slowdown within it."""

    worker: str
    since: float
    until: float
    begins: float
    ends: float
    times: float


class Unevenness(NamedTuple):
    """`useful` is the share of the workers' time that is not spent on waiting for the slowest: mean / max."""

    slowest: str
    useful: float


class WorkerReading(NamedTuple):
    stragglings: tuple[Straggling, ...]
    uneven: Unevenness | None
    workers: int
    why_none: str  # "" where there was enough to look at


def read_workers(times: Sequence[StepTime]) -> WorkerReading:
    """Reads all step times of a job, in any order."""
    looks: dict[float, dict[str, float]] = {}
    for one in times:
        if one.took > 0:
            looks.setdefault(one.at, {})[one.worker] = one.took
    by_worker: dict[str, list[float]] = {}
    for at in sorted(looks):
        for worker, took in looks[at].items():
            by_worker.setdefault(worker, []).append(took)
    if len(by_worker) < LEAST_WORKERS:
        return WorkerReading((), None, len(by_worker), f"{LEAST_WORKERS} workers are needed to compare them")
    if max(map(len, by_worker.values())) < _LEAST_LOOKS:
        return WorkerReading((), None, len(by_worker), f"{_LEAST_LOOKS} step times of a worker are needed")
    return WorkerReading(_stragglings(looks, by_worker), _uneven(by_worker), len(by_worker), "")


def _uneven(by_worker: Mapping[str, Sequence[float]]) -> Unevenness | None:
    usual = {worker: median(took) for worker, took in by_worker.items()}
    slowest = max(usual, key=lambda worker: usual[worker])
    useful = sum(usual.values()) / len(usual) / usual[slowest]
    return Unevenness(slowest, useful) if useful <= 1 / UNEVEN else None


def _stragglings(
    looks: Mapping[float, Mapping[str, float]], by_worker: Mapping[str, Sequence[float]]
) -> tuple[Straggling, ...]:
    ratios: dict[str, list[tuple[float, float]]] = {}
    for at in sorted(looks):
        there = looks[at]
        for worker, took in there.items():
            others = [value for name, value in there.items() if name != worker]
            if len(others) >= LEAST_WORKERS - 1:
                ratios.setdefault(worker, []).append((at, took / median(others)))
    first, last = min(looks), max(looks)
    stretches: list[Straggling] = []
    for worker in by_worker:
        mine = ratios.get(worker, [])
        if len(mine) >= _LEAST_LOOKS:
            stretches += _of_worker(worker, mine, first, last)
    return tuple(sorted(stretches, key=lambda one: (one.since, one.worker)))


def _of_worker(worker: str, mine: Sequence[tuple[float, float]], first: float, last: float) -> list[Straggling]:
    usual = median(ratio for _, ratio in mine)
    is_slow = [ratio >= SLOWER * usual for _, ratio in mine]
    inside = [False] * len(mine)
    for begin in range(max(1, len(mine) - _WINDOW + 1)):
        if sum(is_slow[begin : begin + _WINDOW]) >= _MOST_OF_IT:
            for place in range(begin, min(begin + _WINDOW, len(mine))):
                inside[place] = True
    stretches: list[Straggling] = []
    place = 0
    while place < len(mine):
        if not inside[place]:
            place += 1
            continue
        end = place
        while end < len(mine) and inside[end]:
            end += 1
        slow = [at for at in range(place, end) if is_slow[at]]
        since, until = mine[slow[0]][0], mine[slow[-1]][0]
        times = sum(mine[at][1] / usual for at in slow) / len(slow)
        span = (last - first) or 1.0
        stretches.append(Straggling(worker, since, until, (since - first) / span, (until - first) / span, times))
        place = end
    return stretches
