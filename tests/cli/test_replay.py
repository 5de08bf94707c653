"""`costguard replay`, which needs no server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from costguard.cli.app import app
from costguard.errors import Invalid

TIMES = ["--work", "6h", "--deadline", "9h", "--overhead", "6m", "--runs", "6"]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Two zones that come and go, out of step with each other."""
    for place in range(2):
        ups = [int((point // 17 + point // (5 + place)) % 3 > 0) for point in range(400)]
        path = tmp_path / f"zone-{place}_a100_1.json"
        path.write_text(json.dumps({"metadata": {"gap_seconds": 360}, "data": ups}))
    return tmp_path


def test_replay_prints_a_list_of_policies_for_programs(traces: Path) -> None:
    """The list has, with --json, name, relative cost, interval, share on time, preemptions and runs of each policy."""
    done = CliRunner().invoke(app, ["replay", "--traces", str(traces), *TIMES, "--json"], catch_exceptions=False)
    results = json.loads(done.stdout)
    assert {result["policy"] for result in results} == {"greedy", "uniform_progress", "planner", "optimum"}
    for result in results:
        assert set(result) == {"policy", "relative_cost", "ci95", "on_time", "preemptions", "runs"}
        assert result["ci95"][0] <= result["relative_cost"] <= result["ci95"][1]
        assert result["runs"] == 6
        assert result["on_time"] == 1.0


def test_replay_shows_a_table_and_draws_a_plot(traces: Path, tmp_path: Path) -> None:
    """The table says what was left out; the plot is SVG with every policy in it."""
    short = traces / "short_a100_1.json"
    short.write_text(json.dumps({"metadata": {"gap_seconds": 360}, "data": [1, 0]}))
    plot = tmp_path / "plot.svg"
    done = CliRunner().invoke(app, ["replay", "--traces", str(traces), *TIMES, "--plot", str(plot)])
    assert "Uniform Progress" in done.stdout
    assert "Left out, as shorter than the deadline: short_a100_1." in done.stdout
    assert plot.read_text().startswith("<svg")
    assert "Optimum, knows all" in plot.read_text()


def test_replay_uses_the_zones_it_is_given_together(traces: Path) -> None:
    """The zones are given by name, or are all of a recording."""
    for zones in ("all", "zone-0_a100_1,zone-1_a100_1"):
        done = CliRunner().invoke(app, ["replay", "--traces", str(traces), *TIMES, "--zones", zones])
        assert "6 runs over 1 recording, seed 0." in done.stdout


def test_replay_refuses_what_it_cannot_run(traces: Path, tmp_path: Path) -> None:
    """A torn file, a deadline that cannot be met, and a time that is none: each with what to do instead."""
    late = ["replay", "--traces", str(traces), "--work", "6h", "--deadline", "6h"]
    assert "even on demand" in str(CliRunner().invoke(app, late).exception)
    assert CliRunner().invoke(app, ["replay", "--traces", str(traces), *TIMES[:3], "soon"]).exit_code == 2
    (traces / "torn_a100_1.json").write_text('{"metadata": {"gap_se')
    torn = CliRunner().invoke(app, ["replay", "--traces", str(traces), *TIMES]).exception
    assert isinstance(torn, Invalid)
    assert "torn_a100_1.json is not whole JSON" in torn.message
