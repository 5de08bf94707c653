"""`make replay TRACES=DIR PART=NAME`: replays the policies over recorded series, a part of the table each time.

Each part is some minutes on two cores, and is stored below .cache/replay. `--write` makes the table and plot of the
docs of all of them. DIR holds series in the folders of https://github.com/skypilot-org/spot-traces
(availability/1-node, preemption/1-node and 4-node), and those of the SkyNomad artefact in gcp-h100-10-2025. Parts
whose names begin with flex are of a table of their own, in which a job may also ask for flex-start VMs.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from tests.deadlines import flex_table
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

    part: str
    title: str
    folders: tuple[str, ...]
    deadlines_h: tuple[float, ...]
    zones: tuple[str, ...] | None
    price_ratio: float | None


SETTINGS = (
    Setting("one-zone", "one zone, deadline 52 to 92 h", GPU, (52, 70, 92), None, PRICE_RATIO),
    Setting(
        "all-zones",
        "all zones of a recording, 52 to 76 h",
        (*GPU, "preemption/1-node/aws-04-19-2023"),
        (52, 60, 76),
        ALL_ZONES,
        PRICE_RATIO,
    ),
    Setting(
        "h100-one-zone", "one zone, H100 on Google Cloud, 52 to 76 h", ("gcp-h100-10-2025",), (52, 60, 76), None, None
    ),
    Setting(
        "h100-13-zones",
        "13 zones, H100 on Google Cloud, 52 to 76 h",
        ("gcp-h100-10-2025",),
        (52, 60, 76),
        ALL_ZONES,
        None,
    ),
)


HOSTILE = "hostile"
PARTS = (*(setting.part for setting in SETTINGS), HOSTILE)
STORED = Path(__file__).resolve().parents[2] / ".cache" / "replay"


class Cell(NamedTuple):
    """A cell of one policy in one setting: the mean over its deadlines and starts, with its 95 % interval."""

    mean: float
    half: float
    preemptions: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="make replay", description=__doc__)
    parser.add_argument("traces", type=Path, nargs="?", help="needed to replay a part")
    parser.add_argument(
        "--part",
        choices=(*PARTS, *flex_table.PARTS),
        action="append",
        default=[],
        help="replay this; more than once: these",
    )
    parser.add_argument("--runs", type=int, default=300, help="of each policy, for each deadline and start overhead")
    parser.add_argument("--hostile", type=int, default=70_000, help="runs on zones that are lost when they are used")
    parser.add_argument("--flex-hostile", type=int, default=100_000, help="the same with flex-start")
    parser.add_argument("--workers", type=int, help="processes; as many as there are cores unless given")
    parser.add_argument("--write", action="store_true", help="write the table and the plot of the docs, of all parts")
    wanted = parser.parse_args()
    if wanted.part and wanted.traces is None:
        parser.error("which series? Give the folder, as in make replay TRACES=DIR PART=one-zone")
    for part in wanted.part:
        _store(part, _replayed(part, wanted))
    tables = [_is_whole(PARTS), _is_whole(flex_table.PARTS)]
    if wanted.write and not any(tables):
        parser.exit(1, "Each table needs all of its parts.\n")
    if tables[0]:
        results = {setting: [PolicyResult(**one) for one in _stored(setting.part)] for setting in SETTINGS}
        table = {setting: _by_policy(of_setting) for setting, of_setting in results.items()}
        runs, late = _counted([result for of_setting in results.values() for result in of_setting])
        hostile, hostile_late = (Counter(counts) for counts in _stored(HOSTILE))
        text = _text(table, runs, late, hostile, hostile_late)
        print(text)
        if wanted.write:
            _write("make replay", f"{text}\n\n{PICTURE}")
            _draw(table)
    if tables[1]:
        text = flex_table.text_of({part: _stored(part) for part in flex_table.PARTS})
        print(text)
        if wanted.write:
            _write("make replay, flex-start", text)


def _replayed(part: str, wanted: argparse.Namespace) -> Sequence[Any]:
    if part in flex_table.PARTS:
        return flex_table.replayed(part, wanted.traces, wanted.runs, wanted.flex_hostile, wanted.workers)
    if part == HOSTILE:
        return _hostile(wanted.hostile)
    return _of_series(part, wanted.traces, wanted.runs)


def _is_whole(parts: Sequence[str]) -> bool:
    missing = [part for part in parts if not _file(part).exists()]
    if missing:
        print(f"Not replayed yet: {', '.join(missing)}.")
    return not missing


def _file(part: str) -> Path:
    return STORED / f"{part}.json"


def _store(part: str, results: Sequence[Any]) -> None:
    STORED.mkdir(parents=True, exist_ok=True)
    _file(part).write_text(json.dumps(results))


def _stored(part: str) -> list[Any]:
    stored: list[Any] = json.loads(_file(part).read_text())
    return stored


def _hostile(count: int) -> list[Counter[str]]:
    with ProcessPoolExecutor() as pool:
        futures = [pool.submit(hostile_runs, count // 2, seed) for seed in (0, 1)]
        return [sum((future.result()[which] for future in futures), Counter[str]()) for which in (0, 1)]


def _of_series(part: str, traces: Path, count: int) -> list[dict[str, Any]]:
    """Each deadline and start overhead in a process of its own."""
    (setting,) = (setting for setting in SETTINGS if setting.part == part)
    with ProcessPoolExecutor() as pool:
        futures = [
            pool.submit(_cells, setting, traces, count, deadline_h, start_h)
            for deadline_h in setting.deadlines_h
            for start_h in STARTS_H
        ]
        return [result._asdict() for future in futures for result in future.result()]


def _cells(setting: Setting, traces: Path, count: int, deadline_h: float, start_h: float) -> list[PolicyResult]:
    chosen = [one for one in read_folder(traces) if one.folder.startswith(setting.folders)]
    makers = {**policies(), "ross": lambda run: Ross(Random(run))}
    task = ReplayTask(WORK_H, deadline_h, start_h, setting.zones, setting.price_ratio, count, seed=1)
    results = list(replay(chosen, task, makers).results)
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


def _write(block: str, text: str) -> None:
    document = DOCS / "deadlines.md"
    page = document.read_text(encoding="utf-8")
    marked = re.compile(rf"(<!-- begin: {re.escape(block)} -->\n).*?(<!-- end -->)", re.DOTALL)
    document.write_text(marked.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page), encoding="utf-8")


def _draw(table: dict[Setting, dict[str, Cell]]) -> None:
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
