"""`costguard read-log` and `costguard judge-curve`, which need no server."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from typer.testing import CliRunner

from costguard.cli.app import app


def test_read_log_prints_an_object_for_each_line_that_says_something(tmp_path: Path) -> None:
    """Lines count from 0 and end at a carriage return, too; a line of no interest is left out."""
    log = tmp_path / "train.log"
    log.write_bytes(b"hello\niter 10: loss 2.5\r\n\riter 20: loss nan\n")
    done = CliRunner().invoke(app, ["read-log", str(log), "--json"])
    assert [json.loads(line) for line in done.output.splitlines()] == [
        {"line": 1, "phase": "train", "step": 10, "loss": 2.5},
        {"line": 3, "phase": "train", "step": 20, "loss": "nan"},
    ]


def test_read_log_shows_a_table_and_says_where_nothing_is_read(tmp_path: Path) -> None:
    """A log of an unknown format leads to the options with which its owner names the step and the metric."""
    log = tmp_path / "train.log"
    log.write_text("nothing here\n")
    assert "--step-pattern" in CliRunner().invoke(app, ["read-log", str(log)], env={"COLUMNS": "200"}).output
    log.write_text("iter 10: loss 2.5\n")
    assert "2.5" in CliRunner().invoke(app, ["read-log", str(log)], env={"COLUMNS": "200"}).output


def test_judge_curve_prints_an_object_for_each_run(tmp_path: Path) -> None:
    """Runs in one file are judged apart, each in the order of its steps; a value that is no number counts as one."""
    curve = tmp_path / "curve.csv"
    flat = [f"a,{step},{max(1.0, 10 - step) + 0.001 * (step % 3)}" for step in range(100)]
    curve.write_text("\n".join(["run,step,value", *reversed(flat), "b,1,nan", "b,2,3.5"]))
    done = CliRunner().invoke(app, ["judge-curve", str(curve), "--better", "lower", "--json"])
    first, second = (json.loads(line) for line in done.output.splitlines())
    assert (first["run"], 10 < first["spoke_at"] < 60) == ("a", True)
    assert (second["run"], second["spoke_at"]) == ("b", None)
    assert second["reason"] == "The rule needs 20 evaluations with a number, and has 1."


def test_a_file_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    """The error names the file, what is wrong with it, and what to do."""
    missing = CliRunner().invoke(app, ["read-log", str(tmp_path / "none.log")])
    assert missing.exit_code != 0
    assert "cannot be read" in str(missing.exception)
    curve = tmp_path / "curve.csv"
    curve.write_text("epoch,loss\n1,2\n")
    assert "lacks the columns step and value" in str(CliRunner().invoke(app, ["judge-curve", str(curve)]).exception)
    curve.write_text(f"step,value\n1,{'9' * 200_000}\n")
    before = csv.field_size_limit(131_072)  # Python's own; who reads a bill in this process may have raised it
    try:
        torn = CliRunner().invoke(app, ["judge-curve", str(curve)])
    finally:
        csv.field_size_limit(before)
    assert "cannot be read as CSV: field larger" in str(torn.exception)
