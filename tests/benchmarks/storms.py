"""Storms in processes of their own, whose memory is theirs alone: in memory, and through Google's client over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import structlog
from tests.benchmarks.measure import Measured
from tests.benchmarks.storm import CALLS_PER_MINUTE, StormSetup, in_memory, storm
from tests.benchmarks.storm_served import served
from tests.jobs.world import FragileDatabase

from costguard.db.migrate import upgrade

_WAYS = {"memory": "storm, cloud in memory", "served": "storm, cloud over HTTP"}


def storms(folder: Path) -> Iterator[Measured]:
    for way, title in _WAYS.items():
        place = folder / way
        place.mkdir()
        command = [sys.executable, "-m", "tests.benchmarks.storms", way, str(place)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        for name, unit, value, goal in json.loads(ended.stdout):
            yield Measured(f"{title}: {name}", unit, [value], goal)


def _rows(ground: StormSetup) -> Iterator[tuple[str, str, float, float | None]]:
    figures = storm(ground)
    seconds = figures.until_replaced.total_seconds()
    yield "1,000 jobs launched, the guard's own time", "s", figures.launched_s, None
    yield "an idle turn over 1,000 running jobs", "s CPU", figures.idle_turn_s, 0.1
    yield "a minute of turns and a pass over 1,000 running jobs", "s CPU", figures.idle_minute_s, 3
    yield (
        "1,000 preempted at once, until another VM is asked for for each",
        "s",
        figures.until_requested.total_seconds(),
        120,
    )
    yield "until Google has accepted one for each", "s", seconds, 300
    yield "the guard's own time for that", "s", figures.replaced_s, None
    yield (
        f"calls a second, where {CALLS_PER_MINUTE / 60:g} writes and as many reads are let",
        "1/s",
        figures.calls / seconds,
        None,
    )
    yield "calls that Google refused for its limit", "calls", figures.refused, None
    yield "peak memory", "MB", figures.peak_mb, 400


@contextmanager
def _in_memory(folder: Path) -> Iterator[StormSetup]:
    url = f"sqlite:///{folder / 'storm.db'}"
    upgrade(url)
    with closing(FragileDatabase.open(url)) as database:
        assert isinstance(database, FragileDatabase)
        yield in_memory(database)


def _main(way: str, folder: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with _in_memory(folder) if way == "memory" else served(folder) as ground:
        print(json.dumps(list(_rows(ground))))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
