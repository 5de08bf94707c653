"""Shows measurements: a table for people, a file for programs."""

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
    """A row of measurements. Its value is the median of the samples; a goal is the most that it may be.

    `goal_p95` is the most that nineteen in twenty of the samples may be.
    """

    name: str
    unit: str
    samples: Sequence[float]
    goal: float | None = None
    goal_p95: float | None = None

    @property
    def value(self) -> float:
        return median(self.samples)

    @property
    def p95(self) -> float:
        return sorted(self.samples)[-(-19 * len(self.samples) // 20) - 1]

    @property
    def holds(self) -> bool | None:
        """Says whether the goal holds; None where no goal is set."""
        if self.goal is None:
            return None
        return self.value <= self.goal and (self.goal_p95 is None or self.p95 <= self.goal_p95)


def show(rows: Sequence[Measured]) -> None:
    table = Table("Measured", "Median", "95 %", "Min-max", "Unit", "Goal", "Holds", box=None, pad_edge=False)
    for row in rows:
        spread = f"{_figure(min(row.samples))}-{_figure(max(row.samples))}" if len(row.samples) > 1 else ""
        goal = "" if row.goal is None else f"<= {_figure(row.goal)}"
        goal += "" if row.goal_p95 is None else f", {_figure(row.goal_p95)}"
        p95 = "" if row.goal_p95 is None else _figure(row.p95)
        holds = {None: "", True: "yes", False: "no"}[row.holds]
        table.add_row(row.name, _figure(row.value), p95, spread, row.unit, goal, holds)
    Console(width=150).print(table)


def write(rows: Sequence[Measured], path: Path) -> None:
    """A list of name, value, unit, goal, holds; the last two are null where no goal is set.

    With p95 and goal_p95, where nineteen in twenty have a goal of their own.
    """
    path.write_text(json.dumps(list(_objects(rows)), indent=2) + "\n", encoding="utf-8")


def _objects(rows: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for row in rows:
        value = round(row.value, 4)
        slow = {} if row.goal_p95 is None else {"p95": round(row.p95, 4), "goal_p95": row.goal_p95}
        yield {"name": row.name, "value": value, "unit": row.unit, "goal": row.goal, "holds": row.holds, **slow}


def _figure(value: float) -> str:
    if value == int(value):
        return str(int(value))
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
