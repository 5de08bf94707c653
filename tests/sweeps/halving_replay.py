"""Replays halving on recorded learning curves, and writes the table in service/docs/halving.md: make halving.

A sweep is a draw of members from the runs of one benchmark that were evaluated at the same steps, cut to the shortest
of them. The rule's figures were chosen on the folders of one half; the other half was looked at once, at the end.
"""

from __future__ import annotations

import csv
import gzip
import random
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean

from tests.progress.curves import CURVES

from costguard.sweeps.halving import MemberCurve, losers
from costguard_vm.progress.curve import noise

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "service" / "docs" / "halving.md"
ETA = 3
SIZES = (9, 27)
FEWEST = 12  # evaluations of a sweep's members
_BETWEEN = re.compile(r"(<!-- halving -->\n).*?(<!-- /halving -->)", re.DOTALL)

Runs = Mapping[str, Sequence["Recorded"]]
Stop = Callable[[Sequence[MemberCurve]], Mapping[int, float]]


@dataclass(frozen=True)
class Recorded:
    """A recorded run: its folder, and evaluations by step. Lower values are better."""

    folder: str
    steps: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def half(self) -> int:
        """0 of the half that figures were chosen on, 1 of the other."""
        return zlib.crc32(self.folder.encode()) % 2


@dataclass
class Replayed:
    """Shares of sweeps, and of steps, by benchmark."""

    saved: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    kept: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))  # the winner or its equal
    strictly: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    lost: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # of the winner's gain

    def of_all(self, measured: Mapping[str, Sequence[float]]) -> float:
        """Returns the mean over benchmarks, each of which counts once."""
        return mean(mean(values) for values in measured.values())

    def row(self, name: str) -> str:
        count = sum(map(len, self.saved.values()))
        shares = (self.saved, self.kept, self.strictly, self.lost)
        texts = " | ".join(f"{self.of_all(share):.1%}".replace("%", " %") for share in shares)
        return f"| {name} | {count:,} | {texts} |"


def recorded() -> dict[str, list[Recorded]]:
    """Reads the runs by benchmark and spacing of evaluations. A run whose steps do not rise is left out."""
    csv.field_size_limit(10**9)
    result: dict[str, list[Recorded]] = defaultdict(list)
    with gzip.open(CURVES, "rt") as source:
        for row in csv.DictReader(source):
            steps, values = ([float(text) for text in row[name].split()] for name in ("at", "value"))
            if any(after <= before for before, after in pairwise(steps)):
                continue
            if row["better"] == "higher":
                values = [-value for value in values]
            if row["source"] == "nanogpt":
                name = f"nanogpt {row['path'].split('/')[1]}"
                steps, values = (steps[1:], values[1:]) if steps[0] == 0 else (steps, values)
                if steps[:2] != [125, 250]:
                    continue
            else:
                name = f"{row['benchmark']} {steps[1] - steps[0]:.4g}"
                steps = [float(place) for place in range(1, len(steps) + 1)]
            result[name].append(Recorded(str(Path(row["path"]).parent), tuple(steps), tuple(values)))
    return dict(result)


def sweeps(runs: Runs, size: int, of_each: int, seed: int) -> Iterator[tuple[str, list[MemberCurve]]]:
    """Draws sweeps of each benchmark that has enough runs."""
    chance = random.Random(seed)
    for name, some in sorted(runs.items()):
        for _ in range(of_each if len(some) >= size else 0):
            if (members := _cut(chance.sample(list(some), size))) is not None:
                yield name, members


def _cut(picked: Sequence[Recorded]) -> list[MemberCurve] | None:
    shared = sorted(set.intersection(*(set(run.steps) for run in picked)))
    shortest = min(run.steps[-1] for run in picked)
    end = max((step for step in shared if step <= shortest), default=0.0)
    cut = [tuple(step for step in run.steps if step <= end) for run in picked]
    if any(len(steps) < FEWEST for steps in cut):
        return None
    return [
        MemberCurve(number, steps, run.values[: len(steps)])
        for number, (run, steps) in enumerate(zip(picked, cut, strict=True), 1)
    ]


def in_step(members: Sequence[MemberCurve]) -> dict[int, float]:
    """The steps at which members are stopped where all of them run at once, evaluation by evaluation."""
    return _stopped(members, {one.number: 0 for one in members}, lambda _: 1)


def four_at_once(members: Sequence[MemberCurve]) -> dict[int, float]:
    """The same where four run at a time, the others wait, and each has a pace of its own."""
    chance = random.Random(len(members))
    return _stopped(members, {}, lambda _: chance.choice((1, 1, 2, 0)))


def _stopped(members: Sequence[MemberCurve], done: dict[int, int], pace: Callable[[int], int]) -> dict[int, float]:
    total = members[0].steps[-1]
    stopped: dict[int, float] = {}
    by_number = {one.number: one for one in members}
    waiting = [one.number for one in members if one.number not in done]
    while waiting or any(done[number] < len(by_number[number].steps) for number in done if number not in stopped):
        running = [n for n in done if n not in stopped and done[n] < len(by_number[n].steps)]
        while waiting and len(running) < 4:
            done[waiting[0]] = 0
            running.append(waiting.pop(0))
        for number in running:
            done[number] = min(done[number] + pace(number), len(by_number[number].steps))
        seen = [
            MemberCurve(
                number,
                by_number[number].steps[:count],
                by_number[number].values[:count],
                leads=number not in stopped,
                may_stop=number in running,
            )
            for number, count in done.items()
        ]
        for loser in losers(ETA, seen, total, len(members)):
            stopped[loser.number] = by_number[loser.number].steps[done[loser.number] - 1]
    return stopped


def plain(members: Sequence[MemberCurve]) -> dict[int, float]:
    """Halving as published, without a margin: the best third goes on after a ninth and after a third of the steps."""
    total, alive = members[0].steps[-1], list(members)
    stopped: dict[int, float] = {}
    for part, keep in ((ETA**-2, len(members) // ETA), (1 / ETA, len(members) // ETA**2)):
        order = sorted(alive, key=lambda one: min(one.values[: max(one.until(total * part), 1)]))
        stopped |= {one.number: total * part for one in order[keep:]}
        alive = order[:keep]
    return stopped


def replay(drawn: Iterator[tuple[str, list[MemberCurve]]], stop: Stop) -> Replayed:
    """A winner is the member with the best value of all. Its equal is within its own noise, or 0.5 % of its gain."""
    result = Replayed()
    for name, members in drawn:
        stopped, total = stop(members), members[0].steps[-1]
        best = {one.number: min(one.values) for one in members}
        winner = min(members, key=lambda one: best[one.number])
        lost = min(value for number, value in best.items() if number not in stopped) - best[winner.number]
        gain = max(winner.values[:3]) - best[winner.number]
        equal = max(noise(winner.values[len(winner.values) // 3 :]), 0.005 * gain)
        result.saved[name].append(sum(1 - step / total for step in stopped.values()) / len(members))
        result.kept[name].append(lost <= equal)
        result.strictly[name].append(winner.number not in stopped)
        result.lost[name].append(lost / gain if gain > 0 else 0.0)
    return result


def half_of(runs: Runs, half: int) -> dict[str, list[Recorded]]:
    """Returns the runs of one half, without U-Net3D, which is first evaluated when it is nearly trained."""
    chosen = {name: [run for run in some if run.half == half] for name, some in runs.items()}
    return {name: some for name, some in chosen.items() if "unet" not in name.lower()}


def repeated(runs: Runs) -> dict[str, list[Recorded]]:
    """Returns the runs by folder: each is one recipe, run again and again."""
    by_folder: dict[str, list[Recorded]] = defaultdict(list)
    for name, some in runs.items():
        for run in some:
            by_folder[f"{name} {run.folder}"].append(run)
    return by_folder


def main() -> int:
    if not CURVES.exists():
        print(f"The recorded curves are not at {CURVES}, so nothing is replayed.", file=sys.stderr)
        return 1
    runs, of_each = recorded(), int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rows = [
        "| Curves, members | Sweeps | Saved | Winner or its equal kept | Winner itself | Lost of the winner's gain |",
        "|---|---|---|---|---|---|",
    ]
    for half, name in ((0, "those the figures were chosen on"), (1, "**the others**")):
        for size in SIZES:
            drawn = list(sweeps(half_of(runs, half), size, of_each, seed=7 + half))
            done = replay(iter(drawn), in_step)
            rows.append(done.row(f"{name}, {size}"))
            for one in sorted(done.kept):
                shares = (done.saved[one], done.kept[one], done.strictly[one])
                print(f"{name}, {size}, {one}: " + ", ".join(f"{mean(share):.1%}" for share in shares))
            if half:
                rows.append(replay(iter(drawn), four_at_once).row(f"the same, four at once at different paces, {size}"))
                rows.append(replay(iter(drawn), plain).row(f"the same, halving without a margin, {size}"))
    unet = {name: some for name, some in runs.items() if "unet" in name.lower()}
    rows.append(replay(sweeps(unet, 9, of_each, 7), in_step).row("U-Net3D, whose gain is within its noise, 9"))
    rows.append(replay(sweeps(repeated(half_of(runs, 1)), 9, of_each // 10, 7), in_step).row("one recipe repeated, 9"))
    print("\n".join(rows))
    if PAGE.exists():
        PAGE.write_text(_BETWEEN.sub(lambda match: match[1] + "\n".join(rows) + "\n" + match[2], PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
