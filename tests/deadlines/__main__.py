"""`make replay TRACES=DIR`: replays the policies over recorded series, and writes the table and plot of the docs.

DIR holds series in the folders of https://github.com/skypilot-org/spot-traces (availability/1-node, preemption/1-node
and 4-node), and those of the SkyNomad artefact in gcp-h100-10-2025.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

from tests.deadlines.hostile_runs import hostile_runs
from tests.deadlines.ross import Ross

from costguard.deadlines.plot import Line, drawing
from costguard.deadlines.replay import ALL_ZONES, OPTIMUM, PRICE_RATIO, PolicyResult, ReplayTask, policies, replay
from costguard.deadlines.series import read_folder

DOCS = Path(__file__).resolve().parents[2] / "service" / "docs"
WORK_H = 48.0
STARTS_H = (0.02, 0.1, 0.2, 0.4)
NAMES = {
    "greedy": "greedy",
    "uniform_progress": "Uniform Progress",
    "ross": "ROSS",
    "planner": "planner",
    OPTIMUM: "optimum",
}
PICTURE = "![Cost of each policy relative to on-demand](deadlines.svg)"
GPU = ("availability/1-node", "preemption/4-node")


class Setting(NamedTuple):
    """A row of the table. `folders`: where its series lie."""

    title: str
    folders: tuple[str, ...]
    deadlines_h: tuple[float, ...]
    zones: tuple[str, ...] | None
    price_ratio: float | None


SETTINGS = (
    Setting("one zone, deadline 52 to 92 h", GPU, (52, 70, 92), None, PRICE_RATIO),
    Setting(
        "all zones of a recording, 52 to 76 h",
        (*GPU, "preemption/1-node/aws-04-19-2023"),
        (52, 60, 76),
        ALL_ZONES,
        PRICE_RATIO,
    ),
    Setting("one zone, H100 on Google Cloud, 52 to 76 h", ("gcp-h100-10-2025",), (52, 60, 76), None, None),
    Setting("13 zones, H100 on Google Cloud, 52 to 76 h", ("gcp-h100-10-2025",), (52, 60, 76), ALL_ZONES, None),
)


class Cell(NamedTuple):
    """A cell of one policy in one setting: the mean over its deadlines and starts, with its 95 % interval."""

    mean: float
    half: float
    preemptions: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="make replay", description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--runs", type=int, default=300, help="of each policy, for each deadline and start overhead")
    parser.add_argument("--hostile", type=int, default=70_000, help="runs on zones that are lost when they are used")
    parser.add_argument("--write", action="store_true", help="write the table and the plot of the docs")
    wanted = parser.parse_args()
    with ProcessPoolExecutor(max_workers=5) as pool:
        hostile = pool.submit(hostile_runs, wanted.hostile)
        cells = [pool.submit(_cells, setting, wanted.traces, wanted.runs) for setting in SETTINGS]
        table = {setting: _by_policy(of_setting.result()) for setting, of_setting in zip(SETTINGS, cells, strict=True)}
        runs, late = _counted([result for of_setting in cells for result in of_setting.result()])
        text = _text(table, runs, late, *hostile.result())
    print(text)
    if wanted.write:
        _write(text, table)


def _cells(setting: Setting, traces: Path, count: int) -> list[PolicyResult]:
    chosen = [one for one in read_folder(traces) if one.folder.startswith(setting.folders)]
    results: list[PolicyResult] = []
    makers = {**policies(), "ross": lambda run: Ross(Random(run))}
    for deadline_h in setting.deadlines_h:
        for start_h in STARTS_H:
            task = ReplayTask(WORK_H, deadline_h, start_h, setting.zones, setting.price_ratio, count, seed=1)
            results.extend(replay(chosen, task, makers).results)
            print(f"{setting.title}: {deadline_h:g} h, {start_h:g} h a start", flush=True)
    return results


def _by_policy(results: Sequence[PolicyResult]) -> dict[str, Cell]:
    return {name: _cell([result for result in results if result.policy == name]) for name in NAMES}


def _counted(results: Sequence[PolicyResult]) -> tuple[Counter[str], Counter[str]]:
    """The runs of policies, and the late ones."""
    runs: Counter[str] = Counter()
    late: Counter[str] = Counter()
    for result in results:
        if result.policy != OPTIMUM:
            runs[result.policy] += result.runs
            late[result.policy] += round((1 - result.on_time) * result.runs)
    return runs, late


def _cell(results: Sequence[PolicyResult]) -> Cell:
    halves = [(result.ci95[1] - result.ci95[0]) / 2 for result in results]
    half = math.sqrt(sum(one**2 for one in halves)) / len(halves)
    return Cell(fmean(one.relative_cost for one in results), half, fmean(one.preemptions for one in results))


def _text(
    table: dict[Setting, dict[str, Cell]],
    runs: Counter[str],
    late: Counter[str],
    hostile: Counter[str],
    hostile_late: Counter[str],
) -> str:
    titles = [NAMES[name] for name in NAMES]
    lines = [f"| cost relative to on-demand | {' | '.join(titles)} |", f"| --- |{' --- |' * len(titles)}"]
    for setting, cells in table.items():
        shown = [f"{cells[name].mean:.3f} ± {cells[name].half:.3f}" for name in NAMES]
        lines.append(f"| {setting.title} | {' | '.join(shown)} |")
    lines += [
        "",
        f"Late: {late.total():,} of {runs.total():,} runs on recorded series, and {hostile_late.total():,} of "
        f"{hostile.total():,} on zones that are lost as soon as they are used.",
    ]
    return "\n".join(lines)


def _write(text: str, table: dict[Setting, dict[str, Cell]]) -> None:
    document = DOCS / "deadlines.md"
    page = document.read_text(encoding="utf-8")
    marked = re.compile(r"(<!-- begin: make replay -->\n).*?(<!-- end -->)", re.DOTALL)
    document.write_text(marked.sub(lambda match: f"{match[1]}{text}\n\n{PICTURE}\n{match[2]}", page), encoding="utf-8")
    first, second = list(table)[:2]
    lines = [
        Line(title, [_drawn(table[setting][name]) for setting in (first, second)]) for name, title in NAMES.items()
    ]
    plot = drawing("48 h of work, 0.02 to 0.4 h a start", [first.title, second.title], lines)
    (DOCS / "deadlines.svg").write_text(plot, encoding="utf-8")


def _drawn(cell: Cell) -> tuple[float, float, float]:
    return (cell.mean, cell.mean - cell.half, cell.mean + cell.half)


if __name__ == "__main__":
    main()
