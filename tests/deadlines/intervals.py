"""Saves at fixed and at advised intervals over recorded series of Spot VMs: `python -m tests.deadlines.intervals`.

A job holds one zone: each time for which it was up is the life of a VM, from its start to its preemption. What is
compared is the cost of the work that is kept: billed hours for an hour of it, the same price in each. The advice knows
only what was seen before each VM began; the best fixed interval is searched for with the whole record at hand.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from costguard.deadlines.hazards import ByAge, SeenPeriod, counts_of
from costguard.deadlines.save_interval import LONGEST_H, SHORTEST_H, SaveTerms, best_interval, hazard_of
from costguard.deadlines.series import ZoneSeries, read_folder

SAVES_S = (1, 5, 20, 60, 120, 300)
START_H = 0.1
MOMENTS = 5  # between two points of a record, at which the preemption may have come
_TRIED = 161  # fixed intervals, from a minute to two days
_READ_EVERY = 10  # VMs
_MANY = 20


class Life(NamedTuple):
    """A VM: the hours that it lived, the hazards that were known as it began, and whether the record cut it off."""

    hours: float
    hazard: ByAge
    is_cut: bool


class Compared(NamedTuple):
    """Billed hours for an hour of kept work: at the best fixed interval, as advised once a VM, and by its age."""

    name: str
    save_s: float
    best_h: float
    best: float
    advised: float
    by_age: float
    lives: int

    @property
    def excess(self) -> float:
        return self.advised / self.best - 1

    @property
    def excess_by_age(self) -> float:
        return self.by_age / self.best - 1


def periods_of(series: ZoneSeries) -> list[SeenPeriod]:
    periods: list[SeenPeriod] = []
    began = 0
    for point in range(1, len(series.ups) + 1):
        if point == len(series.ups) or series.ups[point] != series.ups[began]:
            ends = point * series.gap_h
            periods.append(SeenPeriod(series.ups[began], began * series.gap_h, ends, point == len(series.ups)))
            began = point
    return periods


def lives_of(series: ZoneSeries, *, knows_all: bool = False) -> list[Life]:
    """Returns the VMs of a zone, each as long as it may have lived. The history that the advice rests on is read again
    at every tenth VM; with `knows_all` it is the whole record.
    """
    periods = periods_of(series)
    ups = [one for one in periods if one.is_up]
    lives: list[Life] = []
    for place, one in enumerate(ups):
        if place % _READ_EVERY == 0:
            hazard = hazard_of(counts_of(periods, math.inf if knows_all else one.began_h))
        whole_h = one.ended_h - one.began_h
        lost_h = [whole_h - series.gap_h * (moment + 0.5) / MOMENTS for moment in range(MOMENTS)]
        lives += [Life(hours, hazard, one.is_cut) for hours in ([whole_h] * MOMENTS if one.is_cut else lost_h)]
    return lives


def kept_at(life: Life, save_h: float, interval_h: float) -> float:
    """Returns the hours of work that a VM keeps which saves at a fixed interval. What the record cuts off is kept."""
    worked_h = life.hours - START_H
    if worked_h <= 0:
        return 0.0
    cycles, rest_h = divmod(worked_h, interval_h + save_h)
    return cycles * interval_h + (min(rest_h, interval_h) if life.is_cut else 0.0)


def kept_by_age(life: Life, save_h: float, next_h: Callable[[float], float]) -> float:
    """The same, where the interval is chosen again after each save, by the VM's age."""
    age_h, kept_h = START_H, 0.0
    while True:
        interval_h = next_h(age_h)
        if age_h + interval_h + save_h > life.hours:
            return kept_h + (max(0.0, min(interval_h, life.hours - age_h)) if life.is_cut else 0.0)
        kept_h += interval_h
        age_h += interval_h + save_h


def compare(name: str, lives: Sequence[Life], save_s: float) -> Compared:
    save_h = save_s / 3600
    billed_h = sum(life.hours for life in lives)

    def cost(kept_h: float) -> float:
        return billed_h / kept_h if kept_h > 0 else math.inf

    ratio = (LONGEST_H / SHORTEST_H) ** (1 / (_TRIED - 1))
    costs = {
        hours: cost(sum(kept_at(life, save_h, hours) for life in lives))
        for hours in (SHORTEST_H * ratio**place for place in range(_TRIED))
    }
    best_h = min(costs, key=lambda hours: costs[hours])
    terms = [SaveTerms(save_h, START_H, life.hazard) for life in lives]
    pairs = list(zip(lives, terms, strict=True))
    advised = cost(sum(kept_at(life, save_h, best_interval(its)) for life, its in pairs))
    by_age = cost(sum(kept_by_age(life, save_h, partial(_next, its)) for life, its in pairs))
    return Compared(name, save_s, best_h, costs[best_h], advised, by_age, len(lives) // MOMENTS)


def _next(terms: SaveTerms, age_h: float) -> float:
    """Rounds the age to a quarter of its own size, so that few of them are computed."""
    return best_interval(terms, 1.25 ** round(math.log(age_h, 1.25)))


def recordings(folder: Path) -> dict[str, list[Life]]:
    """The VMs of each recording of at least twenty; zones that were never preempted are left out."""
    lives: dict[str, list[Life]] = {}
    for series in read_folder(folder):
        of_zone = lives_of(series)
        if not all(life.is_cut for life in of_zone):
            lives.setdefault(series.folder, []).extend(of_zone)
    return {name: some for name, some in lives.items() if len(some) > _MANY * MOMENTS}


def zones(folder: Path, *, knows_all: bool = False) -> dict[str, list[Life]]:
    """The VMs of each zone that was preempted at least twenty times."""
    lives = {f"{series.folder}/{series.name}": lives_of(series, knows_all=knows_all) for series in read_folder(folder)}
    return {name: some for name, some in lives.items() if len(some) > _MANY * MOMENTS}


def table(title: str, rows: Sequence[Compared]) -> Iterator[str]:
    yield f"| save | {title} | best fixed interval | advice costs more: mean, most | by age: mean, most |"
    yield "|---|---|---|---|---|"
    for save_s in SAVES_S:
        some = [row for row in rows if row.save_s == save_s]
        once = [row.excess for row in some]
        by_age = [row.excess_by_age for row in some]
        hours = sorted(row.best_h * 60 for row in some)
        yield (
            f"| {save_s} s | {len(some)} | {hours[0]:.0f} to {hours[-1]:.0f} min "
            f"| {_percent(sum(once) / len(once))}, {_percent(max(once))} "
            f"| {_percent(sum(by_age) / len(by_age))}, {_percent(max(by_age))} |"
        )


def _percent(share: float) -> str:
    return f"{round(share, 3) + 0.0:.1%}"


def main(folder: Path) -> None:
    parts = {
        "recordings": recordings(folder),
        "zones": zones(folder),
        "zones, known whole": zones(folder, knows_all=True),
    }
    for title, lives in parts.items():
        rows = [compare(name, some, save_s) for save_s in SAVES_S for name, some in lives.items()]
        for row in rows:
            line = f"{row.name:60} {row.save_s:4} s  best {row.best_h * 60:6.0f} min {row.best:.4f}"
            print(f"{line}  advised {row.excess:+.2%}  by age {row.excess_by_age:+.2%}  {row.lives} VMs")
        print("\n".join(table(title, rows)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
