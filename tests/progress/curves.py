"""Measures the rule for standstills on recorded runs, and writes the table in service/docs/progress.md: make curves.

The definitions of too early, found and delay are those of the recorded curves' own README.
"""

from __future__ import annotations

import csv
import gzip
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from costguard_vm.progress.curve import first_standstill

ROOT = Path(__file__).parents[2]
CURVES = ROOT.parent / "shared" / "loss-curves" / "curves.csv.gz"
PAGE = ROOT / "service" / "docs" / "progress.md"
FEWEST = 20  # evaluations of the runs that are judged
SEEDS = (1, 2)
_BETWEEN = re.compile(r"(<!-- curves -->\n).*?(<!-- /curves -->)", re.DOTALL)

Judge = Callable[[Sequence[float], str], int | None]


@dataclass(frozen=True)
class Curve:
    run: int
    benchmark: str
    better: str
    values: tuple[float, ...]

    @property
    def is_counted_apart(self) -> bool:
        """U-Net3D is first evaluated when it is nearly trained."""
        return "unet" in self.benchmark.lower()

    @property
    def turned(self) -> list[float]:
        """Higher is better."""
        return [-value for value in self.values] if self.better == "lower" else list(self.values)


@dataclass
class Measured:
    """Runs that were judged and called too early, by whether they are counted apart, and standstills."""

    judged: Counter[bool] = field(default_factory=Counter)
    early: Counter[bool] = field(default_factory=Counter)
    early_of: Counter[str] = field(default_factory=Counter)
    shares: list[float] = field(default_factory=list)  # of standstills that were found, by draw
    delays: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        early, apart = (f"{self.early[one]} of {self.judged[one]}" for one in (False, True))
        shares = " and ".join(f"{share:.1%}" for share in self.shares).replace("%", " %")
        last = quantiles(self.delays, n=10)[-1]
        return f"| {name} | {early} | {apart} | {shares} | {median(self.delays):.2f} / {last:.2f} |"


def recorded() -> list[Curve]:
    csv.field_size_limit(10**9)
    with gzip.open(CURVES, "rt") as source:
        return [
            Curve(int(row["run"]), row["benchmark"], row["better"], tuple(map(float, row["value"].split())))
            for row in csv.DictReader(source)
        ]


def is_too_early(curve: Curve, spoke_at: int) -> bool:
    """Says whether at least 2 % of the run's whole gain was still to come."""
    values = curve.turned
    gain = max(values) - min(values[:3])
    return gain > 0 and (max(values) - max(values[:spoke_at])) / gain >= 0.02


def standing_still(curve: Curve, chance: random.Random) -> tuple[int, list[float]]:
    """The number of evaluations before it stands still, and the curve: its first 60 %, then three times as many more
    at its level with its own noise."""
    at = int(0.6 * len(curve.values))
    head = list(curve.values[:at])
    half = head[at // 2 :]
    rest = [value - median(half[max(0, place - 2) : place + 3]) for place, value in enumerate(half)]
    mean, level = sum(rest) / len(rest), median(head[-3:])
    return at, head + [level + chance.choice(rest) - mean for _ in range(3 * at)]


def measure(judge: Judge, curves: Sequence[Curve], seeds: Sequence[int] = SEEDS) -> Measured:
    measured = Measured()
    for curve in curves:
        spoke_at, apart = judge(curve.values, curve.better), curve.is_counted_apart
        measured.judged[apart] += 1
        if spoke_at is not None and is_too_early(curve, spoke_at):
            measured.early[apart] += 1
            measured.early_of[curve.benchmark] += 1
    for seed in seeds:
        chance, spoke = random.Random(seed), []
        for curve in _half(curves, chance):
            at, values = standing_still(curve, chance)
            spoke_at = judge(values, curve.better)
            spoke.append(spoke_at is not None)
            measured.delays += [(spoke_at - at) / at] if spoke_at is not None and spoke_at > at else []
        measured.shares.append(sum(spoke) / len(spoke))
    return measured


def _half(curves: Sequence[Curve], chance: random.Random) -> Iterator[Curve]:
    return (curve for curve in curves if not curve.is_counted_apart and chance.random() < 0.5)


def this_rule(values: Sequence[float], better: str) -> int | None:
    return first_standstill(values, better)[0]


def patience(values: Sequence[float], better: str, least: int = 5) -> int | None:
    """No new best in five evaluations, from the eighth on."""
    best, since = None, 0
    for place, value in enumerate(values, 1):
        value = -value if better == "lower" else value
        best, since = (value, 0) if best is None or value > best else (best, since + 1)
        if place >= 8 and since >= least:
            return place
    return None


def main() -> int:
    if not CURVES.exists():
        print(f"The recorded curves are not at {CURVES}, so nothing is measured.", file=sys.stderr)
        return 1
    curves = [curve for curve in recorded() if len(curve.values) >= FEWEST]
    rows = [
        "| Rule | Too early | U-Net3D | Standstills found | Delay, median / 90th percentile |",
        "|---|---|---|---|---|",
        measure(patience, curves).row("no new best in 5 evaluations"),
        measure(this_rule, curves).row("**this rule**"),
    ]
    print("\n".join(rows))
    PAGE.write_text(_BETWEEN.sub(lambda match: match[1] + "\n".join(rows) + "\n" + match[2], PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
