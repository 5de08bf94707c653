"""`costguard trace export`: the fleet's Spot history as files, from a real server."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from tests.api import rows
from tests.api.rows import NOW
from tests.cli.conftest import Run

from costguard.db.transaction import Database

HOUR = timedelta(hours=1)


def test_the_fleets_history_is_written_as_series(sqlite_database: Database, run: Run, tmp_path: Path) -> None:
    """The command makes one file for each zone and kind of VM, in a folder that is made, without the name of a VM or a
    person.
    """
    assert run("trace", "export", str(tmp_path / "none")).stdout == (
        "No Spot VM was launched or asked for in the last 30 days.\n"
    )
    with sqlite_database.write() as connection:
        vm = rows.instance(connection, "secret-model")
        given = {"provisioning_model": "spot", "ended_at": NOW - HOUR, "end_reason": "preempted"}
        rows.lifetime(connection, vm, NOW - 3 * HOUR, **given)
    folder = tmp_path / "new" / "traces"
    shown = run("trace", "export", str(folder), "--gap", "1800")
    file = folder / "us-central1-a_nvidia-tesla-t4_1.json"
    assert shown.stdout.strip() == str(file)
    assert json.loads(file.read_text()) == {
        "metadata": {"gap_seconds": 1800, "seen": 7},
        "data": [1, 1, 1, 1, 0, 0, 0],
    }
    again = json.loads(run("trace", "export", str(folder), "--json").stdout)
    assert again == {"files": [str(file)]}
    (tmp_path / "file").touch()
    refused = run("trace", "export", str(tmp_path / "file" / "below"))
    assert refused.returncode == 1
    assert "cannot be written" in refused.stderr


def test_policies_are_replayed_over_the_fleets_own_history(sqlite_database: Database, run: Run) -> None:
    """The series are the ledger's history of its zones; without history it says what to replay instead."""
    given = ("replay", "--history", "--work", "6h", "--deadline", "9h", "--runs", "20", "--json")
    nothing = run(*given)
    assert nothing.returncode == 1
    assert "launched and asked for no Spot VM in the last 90 days" in nothing.stdout + nothing.stderr
    with sqlite_database.write() as connection:
        for number in range(12):
            vm = rows.instance(connection, f"vm-{number}")
            began = NOW - (60 - 5 * number) * HOUR
            preempted = {"provisioning_model": "spot", "ended_at": began + 4 * HOUR, "end_reason": "preempted"}
            rows.lifetime(connection, vm, began, **preempted)
    results = {result["policy"]: result for result in json.loads(run(*given).stdout)}
    assert {"greedy", "planner", "optimum"} <= set(results)
    assert all(result["on_time"] == 1 for result in results.values())
    assert results["optimum"]["relative_cost"] <= results["planner"]["relative_cost"] < 1
    assert run("replay", "--work", "6h", "--deadline", "9h").returncode == 2
