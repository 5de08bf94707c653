"""`make deadlines`: many jobs with deadlines on the real turns, with adversaries drawn by lot; none may be late.

A fifth of them may use no on-demand VM: those are to be on time where Spot stays, and never idle while it is there.

python -m tests.jobs.many_deadlines --runs 100 --seed 1
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import fmean

import structlog
from tests.jobs.deadline_world import ADVERSARIES, MINUTE, Run, is_on_time
from tests.jobs.world import world

from costguard.db.migrate import upgrade

_ENDS = 3 * MINUTE
_LONGEST_START = 20 * MINUTE
_ON_SPOT_ALONE = 0.2  # of the jobs
_MOST_IDLE = 45 * MINUTE  # in all: a zone that was out is tried again after a while, and those waits add up
_ON_DEMAND_SHARE = 3.0  # of the price of Spot, as in the world's prices


def main() -> int:
    """1 where a job was late."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    late, costs = 0, defaultdict[str, list[float]](list)
    at_once: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.seed, given.seed + given.runs):
            name, on_time, cost, begun_on_demand, words = _one(number, f"sqlite:///{Path(folder) / f'{number}.db'}")
            costs[name].append(cost)
            at_once[name].append(begun_on_demand)
            late += not on_time
            print(f"{number:5} {'on time' if on_time else 'LATE'} {cost:.2f} {name}: {words}", flush=True)
    print(f"{late} of {given.runs} late. Cost relative to the work on demand, with its start on demand at once:")
    for name, some in costs.items():
        print(
            f"{name}: {fmean(some):.2f}, at most {max(some):.2f}; at once {fmean(at_once[name]):.2f}; {len(some)} runs"
        )
    return 1 if late else 0


def _one(seed: int, url: str) -> tuple[str, bool, float, float, str]:
    """The adversary, whether all was right, its cost, what it would be begun on demand at once, and what it was.

    Right is to be on time; on Spot alone, to idle no more than it must, and to be on time where Spot stays.
    """
    lot = Random(seed)
    name = list(ADVERSARIES)[seed % len(ADVERSARIES)]
    work = timedelta(minutes=lot.randint(20, 150))
    spare = timedelta(minutes=lot.randint(0, 180))
    longest = lot.uniform(4, 19)
    upgrade(url)
    with world(url) as w:
        run = Run(
            w,
            work,
            work + _LONGEST_START + _ENDS + MINUTE + spare,
            lambda draw: timedelta(minutes=draw.uniform(2, longest)),
            ADVERSARIES[name],
            saves_every=timedelta(minutes=lot.choice((5, 10, 15, 25))),
            seed=seed,
            tells=lot.random() < 0.5,
            prints=lot.random() < 0.5,
            falls_back=lot.random() >= _ON_SPOT_ALONE,
        )
        job = run.to_the_end()
        hours = run.spot_hours + _ON_DEMAND_SHARE * run.on_demand_hours
        cost = hours / (_ON_DEMAND_SHARE * (work / timedelta(hours=1)))
        took = (job.settled_at or run.now) - job.created_at
        words = f"{work} of work, {spare} to spare, took {took}, {len(w.attempts())} attempts, {job.state.value}"
        at_once = 1 + timedelta(minutes=(2 + longest) / 2) / work
        if run.falls_back:
            return name, is_on_time(run, job), cost, at_once, words
        is_right = run.idle <= _MOST_IDLE and (name != "calm" or is_on_time(run, job))
        return f"{name}, on Spot alone", is_right, cost, at_once, f"{words}, idle for {run.idle}"


if __name__ == "__main__":
    sys.exit(main())
