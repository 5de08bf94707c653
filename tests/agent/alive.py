"""Plants 40 hangs that the real agent must find, and looks for false alarms in 1,000 simulated days: make alive.

Each training runs through the agent, as in the tests, with bounds of a hundredth of the usual ones or less. Every
second one works for a part of its steps; the pace of the steps differs, too.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from tests.agent.fake_guard import guard_at_a_port
from tests.agent.fake_metadata import metadata_server
from tests.agent.planted_hangs import KINDS, planted
from tests.agent.vm import Vm
from tests.progress.alive_days import hangs_in_a_day
from tests.progress.curves import CURVES

from costguard_vm.bundle import bundle

EACH = 8
DAYS = 1000
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


def real_gaps() -> list[list[float]]:
    """Seconds between evaluations of recorded runs; none where the recorded curves are not at hand."""
    if not CURVES.exists():
        return []
    csv.field_size_limit(10**9)
    with gzip.open(CURVES, "rt") as source:
        clocks = [[float(one) for one in row["seconds"].split()] for row in csv.DictReader(source)]
    gaps = [[after - before for before, after in itertools.pairwise(clock)] for clock in clocks]
    return [[gap for gap in one if gap > 0] for one in gaps if len(one) > 10]


def main() -> int:
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
    gaps = real_gaps()
    with ProcessPoolExecutor(2) as processes:
        alarms = list(processes.map(hangs_in_a_day, range(DAYS), [gaps] * DAYS, chunksize=25))
    print(f"{sum(map(bool, alarms))} of {DAYS} simulated days had a false alarm")
    is_late = any(times > 2 for all_times in by_kind.values() for times in all_times)
    return int(is_late or any(alarms))


if __name__ == "__main__":
    sys.exit(main())
