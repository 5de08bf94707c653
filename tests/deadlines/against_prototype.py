"""The planner against its plain prototype, from the same starts: `python -m tests.deadlines.against_prototype TRACES`.

Every second series (with all zones, every second recording) is held out: nothing may be tried out on it. It prints the
share of the gap from Uniform Progress to the optimum that each of the two closes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from tests.deadlines.__main__ import GPU
from tests.deadlines.prototype import Prototype

from costguard.deadlines.planner import Planner
from costguard.deadlines.replay import ALL_ZONES, OPTIMUM, PRICE_RATIO, MakePolicy, ReplayTask, replay
from costguard.deadlines.series import ZoneSeries, read_folder, together
from costguard.deadlines.simple_policies import UniformProgress

STARTS_H = (0.1, 0.4)


class Setting(NamedTuple):
    title: str
    work_h: float
    deadlines_h: tuple[float, ...]
    zones: tuple[str, ...] | None


SETTINGS = {
    "one": Setting("one zone, 48 h by 52 to 92 h", 48.0, (52.0, 70.0, 92.0), None),
    "all": Setting("all zones, 48 h by 52 to 76 h", 48.0, (52.0, 60.0, 76.0), ALL_ZONES),
    "short": Setting("one zone, 12 h by 18 h", 12.0, (18.0,), None),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--runs", type=int, default=16, help="of each policy, for each deadline and start overhead")
    parser.add_argument("--only", choices=list(SETTINGS), action="append")
    parser.add_argument("--tried-out", action="store_true", help="the other half of the series")
    parser.add_argument("--seed", type=int, default=5)
    given = parser.parse_args()
    folders = (*GPU, "preemption/1-node/aws-04-19-2023")
    series = [one for one in read_folder(given.traces) if one.folder.startswith(folders)]
    for name in given.only or SETTINGS:
        setting = SETTINGS[name]
        costs = _costs(_half(series, setting, is_held_out=not given.tried_out), setting, given.runs, given.seed)
        gap = costs["uniform_progress"] - costs[OPTIMUM]
        shares = {which: (costs["uniform_progress"] - costs[which]) / gap for which in ("planner", "prototype")}
        means = ", ".join(f"{which} {cost:.4f}" for which, cost in costs.items())
        print(f"{setting.title}: planner closes {shares['planner']:.0%}, prototype {shares['prototype']:.0%} ({means})")


def _half(series: Sequence[ZoneSeries], setting: Setting, *, is_held_out: bool) -> list[ZoneSeries]:
    groups = together(series) if setting.zones is not None else [[one] for one in series]
    return [one for place, group in enumerate(groups) if (place % 2 == 1) == is_held_out for one in group]


def _costs(series: Sequence[ZoneSeries], setting: Setting, runs: int, seed: int) -> dict[str, float]:
    """The means over all runs, relative to the work on demand. Raises ValueError where any run was late."""
    planner = Planner()
    policies: dict[str, MakePolicy] = {
        "uniform_progress": lambda _run: UniformProgress(),
        "planner": lambda _run: planner,
        "prototype": lambda _run: Prototype(),
    }
    costs: dict[str, list[float]] = defaultdict(list)
    for deadline_h in setting.deadlines_h:
        for start_h in STARTS_H:
            task = ReplayTask(setting.work_h, deadline_h, start_h, setting.zones, PRICE_RATIO, runs, seed)
            for result in replay(series, task, policies).results:
                if result.on_time < 1:
                    raise ValueError(f"{result.policy} was late: {setting.title}, {deadline_h:g} h, {start_h:g} h")
                costs[result.policy].append(result.relative_cost)
    return {name: fmean(some) for name, some in costs.items()}


if __name__ == "__main__":
    main()
