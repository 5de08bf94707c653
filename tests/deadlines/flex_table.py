"""The table of `make replay` with flex-start VMs: two dated sets of prices and one of recorded ones, one zone and all.

Prices of an hour: a2-highgpu-1g and B200 in us-central1 on 2 August and 30 July 2026, by the Cloud Billing Catalog; for
the H100 those of the recorded zones in October 2025, and flex-start at 38.32 of 88.49, by a bill for a3-highgpu-8g.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from tests.deadlines.hostile_runs import WAITS, hostile_flex_runs

from costguard.deadlines.replay import ALL_ZONES, OPTIMUM, PolicyResult, ReplayTask, policies, replay
from costguard.deadlines.series import read_folder

WORK_H = 48.0
DEADLINES_H = (52.0, 60.0, 76.0)
STARTS_H = (0.02, 0.1, 0.2, 0.4)
GPU = ("availability/1-node", "preemption/4-node")
H100 = ("gcp-h100-10-2025",)
HOSTILE = "flex-hostile"
NAMES = {
    "greedy": "greedy",
    "uniform_progress": "Uniform Progress",
    "planner_without_flex": "planner without flex-start",
    "flex_alone": "flex-start alone",
    "planner": "planner",
    OPTIMUM: "optimum",
}


class FlexSetting(NamedTuple):
    """A row of the table. `price_ratio`: on demand over Spot; None: the files' own. `flex_price`: a share of it."""

    part: str
    title: str
    folders: tuple[str, ...]
    zones: tuple[str, ...] | None
    price_ratio: float | None
    flex_price: float


A100_RATIO, A100_FLEX = 3.67363 / 1.92768, 2.02038 / 3.67363
B200_RATIO, B200_FLEX = 16.11 / 4.9542, 8.055 / 16.11
ALL_FOLDERS = (*GPU, "preemption/1-node/aws-04-19-2023")
SETTINGS = (
    FlexSetting("flex-a100-one-zone", "A100, one zone", GPU, None, A100_RATIO, A100_FLEX),
    FlexSetting("flex-a100-all-zones", "A100, all zones", ALL_FOLDERS, ALL_ZONES, A100_RATIO, A100_FLEX),
    FlexSetting("flex-b200-one-zone", "B200, one zone", GPU, None, B200_RATIO, B200_FLEX),
    FlexSetting("flex-b200-all-zones", "B200, all zones", ALL_FOLDERS, ALL_ZONES, B200_RATIO, B200_FLEX),
    FlexSetting("flex-h100-one-zone", "H100, one zone", H100, None, None, 38.32 / 88.49),
    FlexSetting("flex-h100-13-zones", "H100, 13 zones", H100, ALL_ZONES, None, 38.32 / 88.49),
)
PARTS = (*(setting.part for setting in SETTINGS), HOSTILE)


def replayed(part: str, traces: Path | None, count: int, hostile: int, workers: int | None) -> list[Any]:
    """Replays a part: results by policy, deadline and start, or counts of hostile runs."""
    with ProcessPoolExecutor(workers) as pool:
        if part == HOSTILE:
            counted = [pool.submit(hostile_flex_runs, hostile // 4, seed) for seed in range(4)]
            return [sum((one.result()[which] for one in counted), Counter[str]()) for which in range(3)]
        (setting,) = (setting for setting in SETTINGS if setting.part == part)
        assert traces is not None
        cells = [
            pool.submit(_cells, setting, traces, count, deadline_h, start_h)
            for deadline_h in DEADLINES_H
            for start_h in STARTS_H
        ]
        return [result._asdict() for cell in cells for result in cell.result()]


def _cells(setting: FlexSetting, traces: Path, count: int, deadline_h: float, start_h: float) -> list[PolicyResult]:
    chosen = [one for one in read_folder(traces) if one.folder.startswith(setting.folders)]
    task = ReplayTask(
        WORK_H, deadline_h, start_h, setting.zones, setting.price_ratio, count, 1, setting.flex_price, waits=WAITS
    )
    results = list(replay(chosen, task, policies(with_flex=True)).results)
    print(f"{setting.title}: {deadline_h:g} h, {start_h:g} h a start", flush=True)
    return results


def text_of(stored: Mapping[str, Sequence[Any]]) -> str:
    """The table and the late runs, from what was stored of each part."""
    lines = [f"| cost relative to on-demand | {' | '.join(NAMES.values())} |", f"| --- |{' --- |' * len(NAMES)}"]
    runs = late = 0
    for setting in SETTINGS:
        results = [PolicyResult(**one) for one in stored[setting.part]]
        lines.append(f"| {setting.title} | {' | '.join(_cell(results, name) for name in NAMES)} |")
        for result in results:
            runs += result.runs * (result.policy != OPTIMUM)
            late += round((1 - result.on_time) * result.runs)
    hostile, hostile_late, on_flex = (Counter(counts) for counts in stored[HOSTILE])
    lines += [
        "",
        f"Late: {late:,} of {runs:,} runs on recorded series, and {hostile_late.total():,} of {hostile.total():,} on "
        f"zones that are lost as soon as they are used, of which {on_flex.total():,} had a flex-start VM.",
    ]
    return "\n".join(lines)


def _cell(results: Sequence[PolicyResult], name: str) -> str:
    mine = [result for result in results if result.policy == name]
    halves = [(result.ci95[1] - result.ci95[0]) / 2 for result in mine]
    half = math.sqrt(sum(one**2 for one in halves)) / len(halves)
    return f"{fmean(one.relative_cost for one in mine):.3f} ± {half:.3f}"
