"""What was measured: a table for people, a file for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Measured:
    """One row. Its value is the median of the samples; a goal is the most that it may be."""

    name: str
    unit: str
    samples: Sequence[float]
    goal: float | None = None

    @property
    def value(self) -> float:
        return median(self.samples)

    @property
    def holds(self) -> bool | None:
        """None where no goal is set."""
        return None if self.goal is None else self.value <= self.goal


def show(rows: Sequence[Measured]) -> None:
    table = Table("Measured", "Median", "Min-max", "Unit", "Goal", "Holds", box=None, pad_edge=False)
    for row in rows:
        spread = f"{_figure(min(row.samples))}-{_figure(max(row.samples))}" if len(row.samples) > 1 else ""
        goal = "" if row.goal is None else f"<= {_figure(row.goal)}"
        holds = {None: "", True: "yes", False: "no"}[row.holds]
        table.add_row(row.name, _figure(row.value), spread, row.unit, goal, holds)
    Console(width=150).print(table)


def write(rows: Sequence[Measured], path: Path) -> None:
    """A list of name, value, unit, goal, holds; the last two are null where no goal is set."""
    path.write_text(json.dumps(list(_objects(rows)), indent=2) + "\n", encoding="utf-8")


def _objects(rows: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for row in rows:
        value = round(row.value, 4)
        yield {"name": row.name, "value": value, "unit": row.unit, "goal": row.goal, "holds": row.holds}


def _figure(value: float) -> str:
    if value == int(value):
        return str(int(value))
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
