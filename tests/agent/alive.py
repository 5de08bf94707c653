"""Plants 40 hangs that the real agent must find, and looks for false alarms in simulated days: make alive.

Each training runs through the agent, as in the tests, with bounds of a hundredth of the usual ones or less. Every
second one works for a part of its steps; the pace of the steps differs, too.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tests.agent.fake_guard import guard_at_a_port
from tests.agent.fake_metadata import metadata_server
from tests.agent.planted_hangs import KINDS, planted
from tests.agent.vm import Vm
from tests.progress.alive_days import hangs_in_a_day
from tests.progress.curves import CURVES

from costguard_vm.bundle import bundle
from costguard_vm.progress.alive import HangVerdict

EACH = 8
DAYS = 1000  # of one call; other days have another --first
AT_ONCE = 4


def planted_hang(folder: Path, agent: Path, kind: str, number: int) -> float:
    """The silence after which the agent reported it, as a multiple of its bound."""
    pause, work = 0.05 * (1 + number), 0.02 * (number % 2)
    least = 0.75 if kind == "loop" else 3.0
    with guard_at_a_port() as (guard, listener), metadata_server() as metadata:
        listener.listen()
        vm = Vm(folder, agent, metadata, guard)
        vm.train(planted(kind, steps=6 + number, work=work, pause=pause), hang_least_s=least)
        vm.boot()
        try:
            hang = guard.wait_for("heartbeat", lambda event: "hang" in event)["hang"]
        finally:
            vm.close()
    return float(hang["quiet_s"]) / float(hang["bound_s"])


def _hangs_in_a_day(number: int) -> list[HangVerdict]:
    return hangs_in_a_day(number, real_gaps())


@cache
def real_gaps() -> list[list[float]]:
    """Seconds between evaluations of recorded runs; none where the recorded curves are not at hand."""
    if not CURVES.exists():
        return []
    csv.field_size_limit(10**9)
    with gzip.open(CURVES, "rt") as source:
        clocks = [[float(one) for one in row["seconds"].split()] for row in csv.DictReader(source)]
    gaps = [[after - before for before, after in itertools.pairwise(clock) if after > before] for clock in clocks]
    return [one for one in gaps if len(one) > 10]  # an empty one would be replayed for ever


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="make alive")
    parser.add_argument("--days", type=int, default=DAYS, help="how many simulated days of training")
    parser.add_argument("--first", type=int, default=0, help="the number of the first day; hangs are planted with 0")
    options = parser.parse_args()
    is_late = options.first == 0 and _hangs_were_late()
    days = range(options.first, options.first + options.days)
    with ProcessPoolExecutor(2) as processes:
        alarms = list(processes.map(_hangs_in_a_day, days, chunksize=25))
    print(f"{sum(map(bool, alarms))} of {len(days)} simulated days, from number {options.first}, had a false alarm")
    return int(is_late or any(alarms))


def _hangs_were_late() -> bool:
    """Plants every hang, and prints when each kind was found."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as home:
        agent = Path(home) / "agent.pyz"
        agent.write_bytes(bundle())
        jobs = [(kind, number) for kind in KINDS for number in range(EACH)]
        with ThreadPoolExecutor(AT_ONCE) as pool:

            def plant(job: tuple[str, int]) -> tuple[str, float]:
                folder = Path(home) / f"{job[0]}-{job[1]}"
                folder.mkdir()
                return job[0], planted_hang(folder, agent, *job)

            for kind, times in pool.map(plant, jobs):
                by_kind[kind].append(times)
    for kind, all_times in by_kind.items():
        print(f"{kind}: {len(all_times)} of {EACH} found, after at most {max(all_times):.2f} times the bound")
    return any(times > 2 for all_times in by_kind.values() for times in all_times)


if __name__ == "__main__":
    sys.exit(main())
