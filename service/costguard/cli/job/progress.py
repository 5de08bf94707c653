"""`costguard read-log` and `costguard judge-curve`: what Costguard reads in a training's output and metrics."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TextIO

import typer

from costguard.cli.options import AsJson
from costguard.cli.tables import Column, console, say, show_table
from costguard.errors import Invalid
from costguard_vm.progress.curve import first_standstill
from costguard_vm.progress.log_line import printable
from costguard_vm.progress.log_reader import LINE_END, readings

LogFile = Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.")]
Better = Annotated[str, typer.Option("--better", metavar="lower|higher", help="The better direction of the metric.")]

Curves = dict[str, list[float | None]]


_READ_EXAMPLES = """Examples:

  costguard read-log train.log

  python train.py 2>&1 | tee train.log | costguard read-log - --json
"""
_JUDGE_EXAMPLES = """Example:

  costguard judge-curve losses.csv --better lower --json
"""


def register(app: typer.Typer) -> None:
    app.command("read-log", epilog=_READ_EXAMPLES)(read_log)
    app.command("judge-curve", epilog=_JUDGE_EXAMPLES)(judge_curve)


def read_log(file: LogFile, as_json: AsJson = False) -> None:
    """Show what Costguard reads in a training's output: step, epoch, loss and metrics, line by line.

    With --json, one object for each line that says something; lines count from 0, and end at \\n, \\r or both.
    """
    with opened(file) as source:
        lines = LINE_END.split(source.read())
    if as_json:
        for place, reading in readings(lines):
            print(json.dumps({"line": place, **reading.as_json()}))
        return
    rows = list(readings(lines))
    if not rows:
        say(console(), "No line says a step, an epoch, a loss or a metric that Costguard recognises.")
        say(console(), "Name them yourself at the launch: --step-pattern and --metric.", "dim")
        return
    show_table(console(), _COLUMNS, rows)


def judge_curve(file: LogFile, better: Better = "lower", as_json: AsJson = False) -> None:
    """Say where a metric stopped improving. FILE is CSV with the columns step and value, and run where there are many.

    Each run is read from its first evaluation on, as if it went on now: `spoke_at` is the first evaluation, from 1, at
    which the rule says that it stands still.
    """
    if better not in ("lower", "higher"):
        raise typer.BadParameter(f"expected lower or higher, not {better!r}.", param_hint="--better")
    with opened(file) as source:
        curves = _curves(source, file)
    results = [(run, *first_standstill(values, better)) for run, values in curves.items()]
    if as_json:
        for run, spoke_at, reason in results:
            print(json.dumps({"run": run, "spoke_at": spoke_at, "reason": reason}))
        return
    for run, spoke_at, reason in results:
        at = f"evaluation {spoke_at}: " if spoke_at is not None else ""
        say(console(), f"{run}  {at}{reason}" if run else f"{at}{reason}")


@contextmanager
def opened(file: str) -> Iterator[TextIO]:
    try:
        if file == "-":
            sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="")  # type: ignore[union-attr]  # a real file
            yield sys.stdin
        else:
            with open(file, encoding="utf-8-sig", errors="replace", newline="") as source:
                yield source
    except OSError as error:
        raise Invalid(
            f"{file} cannot be read: {error.strerror}.", "Name a text file, or - for standard input."
        ) from None
    except csv.Error as error:  # such as a cell of more than 131,072 characters
        raise Invalid(f"{file} cannot be read as CSV: {error}.", "Name a file whose cells are short texts.") from None


def _curves(source: TextIO, file: str) -> Curves:
    """The values by run, in the order of their steps. A cell that is no number is an evaluation without one."""
    rows = csv.DictReader(source)
    columns = rows.fieldnames or []
    if not {"step", "value"} <= set(columns):
        named = ", ".join(columns) or "none"
        raise Invalid(f"{file} lacks the columns step and value; it has {named}.", "Write a first line: step,value")
    points: dict[str, list[tuple[float, int, float | None]]] = {}
    for place, row in enumerate(rows):
        step = finite_number(row["step"])
        if step is None:
            raise Invalid(f"{file}: {row['step']!r} in line {rows.line_num} is no step.", "Write a number there.")
        points.setdefault(row.get("run") or "", []).append((step, place, finite_number(row["value"])))
    return {
        run: [value for _, _, value in sorted(of_run, key=lambda point: point[:2])] for run, of_run in points.items()
    }


def finite_number(text: str | None) -> float | None:
    """Reads a number from a cell of a file; None where it holds none."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _of(done: float | None, total: float | None) -> str:
    if done is None:
        return ""
    return f"{printable(done)}" if total is None else f"{printable(done)} of {printable(total)}"


_COLUMNS = (
    Column("Line", lambda row: row[0], right=True),
    Column("Phase", lambda row: row[1].phase),
    Column("Step", lambda row: _of(row[1].step, row[1].total), right=True),
    Column("Epoch", lambda row: _of(row[1].epoch, row[1].epoch_total), right=True),
    Column("Batch", lambda row: _of(row[1].batch, row[1].batch_total), right=True),
    Column("Loss", lambda row: "" if row[1].loss is None else f"{row[1].loss:g}", right=True),
    Column("Metrics", lambda row: ", ".join(f"{name} {value:g}" for name, value in row[1].metrics.items()), prose=True),
)
