"""`costguard report` as a person reads it, and as JSON."""

from __future__ import annotations

import json

from tests.api.rows import NOW
from tests.cli.conftest import Run
from tests.reminders.test_report import HOUR, ran, reminded, watched

from costguard.db.transaction import Database


def test_report_says_which_vms_whose_and_how_much(sqlite_database: Database, run: Run) -> None:
    """The outcome first, then a row a VM, then who is reminded, the GPU use, and the settings that come next."""
    watched(sqlite_database)
    vm, machine_run = ran(sqlite_database, "late", 40)
    reminded(sqlite_database, vm, machine_run, 30, 26, 22)
    ran(sqlite_database, "nobodys", 9, owner="")
    shown = run("report").stdout
    first, second, *_ = shown.splitlines()
    assert first == "Watching since Wed 18 Nov 12:00 UTC (2 d), in shadow mode: rules stop nothing."
    assert second.startswith("1 VM would have been stopped, and cost $11.13 after that: $169.27 a month at that pace.")
    assert "GPU use: not known, as no GPU's figures were read (`costguard doctor` says why); the field's: 5 %" in shown
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert any(line.startswith("late lab ada@lab.example would stop") for line in lines)
    assert any(line.startswith("nobodys lab unowned reminded") for line in lines)
    assert lines[-4:] == ["[presets.t4]", 'when_unanswered = "stop"', "[enforcement]", "shadow = false"]


def test_report_as_json_has_every_figure(sqlite_database: Database, run: Run) -> None:
    """Exact dollars, unknown as null, and the method in words."""
    watched(sqlite_database, NOW - 5 * HOUR)
    ran(sqlite_database, "late", 20)
    answer = json.loads(run("report", "--days", "1", "--json").stdout)
    (late,) = answer["vms"]
    assert (late["name"], late["step"], late["rate_per_hour"], late["month_at_rate"]) == (
        "late", "reminded", "0.53", "386.90",
    )  # fmt: skip
    assert answer["cost_since_due"] == {"amount": "2.65", "currency": "USD", "complete": True}
    assert (answer["is_early"], answer["cost_since_due_a_month"]) == (True, None)
    assert (answer["gpu_use"]["used_basis_points"], answer["gpu_use"]["field_percent"]) == (None, 5)
    assert answer["summary"].startswith(
        "Watching for 5 h; a first report comes after a day. Known so far: 1 VM is past"
    )
    assert run("report", "--days", "0").returncode == 2
