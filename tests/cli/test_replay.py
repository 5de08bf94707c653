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


PRICES = ["--prices", "spot=1.92768,flex=2.02038,demand=3.67363"]


def test_replay_compares_the_planner_with_and_without_flex_start(traces: Path) -> None:
    """A price of flex-start adds the planner without it and flex-start alone, and all are on time."""
    options = ["replay", "--traces", str(traces), *TIMES, *PRICES, "--waits", "0m-90m,0.2", "--json"]
    results = {result["policy"]: result for result in json.loads(CliRunner().invoke(app, options).stdout)}
    assert {"planner", "planner_without_flex", "flex_alone", "optimum"} < set(results)
    assert all(result["on_time"] == 1.0 for result in results.values())
    assert results["optimum"]["relative_cost"] <= min(result["relative_cost"] for result in results.values())
    shown = CliRunner().invoke(app, ["replay", "--traces", str(traces), *TIMES, "--flex-price", "0.55"])
    assert "Flex-start alone" in shown.stdout


def test_replay_takes_a_reserved_vm_for_always_there(traces: Path) -> None:
    """A reservation that costs less than Spot makes the whole cheaper than Spot."""
    reserved = [*PRICES[:1], f"{PRICES[1]},reserved=0.9", "--json"]
    results = json.loads(CliRunner().invoke(app, ["replay", "--traces", str(traces), *TIMES, *reserved]).stdout)
    assert next(one for one in results if one["policy"] == "planner")["relative_cost"] < 1.92768 / 3.67363


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--prices", "spot=1,demand"], "expected prices above zero"),
        (["--prices", "spot=0,demand=2"], "expected prices above zero"),
        (["--prices", "flex=1,demand=2"], "name spot and demand"),
        ([*PRICES, "--price-ratio", "3"], "--price-ratio and --flex-price, or"),
        (["--waits", "0h-2h,0.2"], "give its price with --flex-price"),
        ([*PRICES, "--waits", "0h-3h"], "2 h at most"),
        ([*PRICES, "--waits", "2h-1h"], "2 h at most"),
        ([*PRICES, "--waits", "soon"], "such as 0h-2h,0.2"),
        ([*PRICES, "--waits", "0h-1h,2"], "such as 0h-2h,0.2"),
    ],
)
def test_replay_refuses_prices_and_waits_that_make_no_sense(traces: Path, options: list[str], says: str) -> None:
    """The refusal names the option and a value that would do."""
    refused = CliRunner().invoke(app, ["replay", "--traces", str(traces), *TIMES, *options])
    assert refused.exit_code == 2
    assert says in " ".join(refused.output.replace("│", " ").split())
