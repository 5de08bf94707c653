"""Whole passes over fleets of ten and a hundred thousand VMs: the first, and those in which nothing changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.benchmarks.databases import fresh
from tests.benchmarks.measure import Measured
from tests.benchmarks.passes_run import passes
from tests.benchmarks.served import served_fleet


@dataclass(frozen=True, slots=True)
class _Goals:
    """Issue 13, of two quiet cores: seconds and MB."""

    count: int
    first_s: float
    later_s: float | None
    peak_mb: float | None


_GOALS = (_Goals(10_000, 15, None, None), _Goals(100_000, 120, 6, 1000))
_LONGEST_WRITE_S = 2.0


def whole_passes(folder: Path) -> Iterator[Measured]:
    for goals in _GOALS:
        made = fresh(folder, f"passes-{goals.count}")
        with served_fleet(goals.count, new=True) as url, made as urls:
            for name, database_url in urls.items():
                figures = passes(url, goals.count, database_url)
                what = f"{goals.count:,} VMs, {name}"
                yield Measured(f"First pass over {what}", "s", figures["wall"][:1], goals.first_s)
                yield Measured(f"First pass over {what}, CPU", "s", figures["cpu"][:1])
                yield Measured(f"Pass over unchanged {what}", "s", [median(figures["wall"][1:])], goals.later_s)
                yield Measured(f"Pass over unchanged {what}, CPU", "s", [median(figures["cpu"][1:])])
                longest = max(figures["longest_write"])
                yield Measured(f"Longest write transaction, {what}", "s", [longest], _LONGEST_WRITE_S)
                yield Measured(f"Peak memory, {what}", "MB", [figures["peak_mb"]], goals.peak_mb)
