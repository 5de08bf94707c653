"""`costguard reminders`, its preview and `costguard enforcement` against a real server."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console
from tests.api import rows
from tests.api.rows import NOW
from tests.cli.conftest import Run
from tests.reminders import reminder_rows

from costguard.cli.reminders import show_preview
from costguard.db.transaction import Database

HOUR = timedelta(hours=1)
PREVIEW: dict[str, Any] = {
    "as_of": "2026-11-20T12:00:00Z",
    "is_shadow": True,
    "channel": "#gpus",
    "messages": [
        {
            "project": "lab",
            "name": "late",
            "zone": "us-central1-a",
            "owner": "ada@lab.example",
            "preset": "t4",
            "machine_type": "n1-standard-4",
            "gpu_type": "nvidia-tesla-t4",
            "gpu_count": 1,
            "provisioning_model": "standard",
            "stage": 2,
            "to": [
                {"target": "owner", "address": "ada@lab.example"},
                {"target": "channel", "address": "#gpus"},
            ],
            "reason": "past the limit of preset t4 (8 h) by 2 h",
            "started_at": "2026-11-20T02:00:00Z",
            "rate_per_hour": {"amount": "0.53", "complete": True},
            "cost": {"amount": "5.30", "complete": True},
            "evidence": "",
        }
    ],
    "actions": [{"action": "stop", "name": "old", "reason": "nobody answered"}],
    "left_alone": [
        {
            "project": "lab",
            "name": "new",
            "reason": "running for 2 h (limit of preset t4: 8 h)",
            "overdue": False,
            "due_at": "2026-11-20T18:00:00Z",
            "next_at": None,
            "stop_at": None,
        }
    ],
}


def test_reminders_are_listed_with_what_became_of_them(sqlite_database: Database, run: Run) -> None:
    """The list says to whom, accepted or not and why; text from outside cannot steer the terminal."""
    with sqlite_database.write() as connection:
        vm = rows.instance(connection, "one\x1b[2J", gce_id="77")
        subject = {"subject": f"run:{vm}:1", "instance_id": vm}
        reminder_rows.message(connection, "reminder/a/0/0/owner", **subject, accepted_at=NOW)
        reminder_rows.message(
            connection, "digest/x", kind="digest", address="#gpus", status="intended", attempts=2, error="Slack is away"
        )
    shown = run("reminders")
    assert shown.returncode == 0, shown.stderr
    assert "reminder 1 to the owner" in shown.stdout
    assert "ada@lab.example" in shown.stdout
    assert "tried 2 times, again at 2026-11-20 12:00:00: Slack is away" in shown.stdout
    assert "one\\x1b[2J" in shown.stdout
    only = json.loads(run("reminders", "--id", "77", "--json").stdout)
    assert [message["key"] for message in only["reminders"]] == ["reminder/a/0/0/owner"]
    assert "No message fits." in run("reminders", "--status", "failed").stdout


def test_a_preview_says_what_would_be_sent_and_why_nothing_is(sqlite_database: Database, run: Run) -> None:
    """The preview says so without Slack, and still why each VM is left alone."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        rows.lifetime(connection, rows.instance(connection, "one"), NOW - 2 * HOUR)
    shown = run("reminders", "preview")
    assert shown.returncode == 0, shown.stderr
    assert "Slack is not set up" in shown.stdout
    assert "running for 2 h (limit of preset t4: 8 h)" in shown.stdout
    assert json.loads(run("reminders", "preview", "--json").stdout)["messages"] == []


def test_a_preview_reads_as_the_messages_would() -> None:
    """The preview has the owner, the cost, the reason and the recipient; then the VMs left alone, and until when."""
    out = Console(file=io.StringIO(), width=200, markup=False)
    show_preview(out, PREVIEW)
    assert isinstance(out.file, io.StringIO)
    shown = " ".join(out.file.getvalue().split())
    assert "late lab / us-central1-a, t4 x 1" in shown
    assert "Running for 10 h; $5.30 this run, $0.530 an hour. Owner: ada@lab.example. Preset: t4." in shown
    assert "Why: past the limit of preset t4 (8 h) by 2 h." in shown
    assert "Reminder 3 to the owner (ada@lab.example), the channel (#gpus)" in shown
    assert "1 reminder would be sent now." in shown
    assert "Would stop old (shadow: recorded, not done): nobody answered" in shown
    assert "new lab running for 2 h (limit of preset t4: 8 h) due in 6 h" in shown


def test_enforcement_says_what_was_saved_and_how_that_is_known(sqlite_database: Database, run: Run) -> None:
    """Stops and shadow stops apart, each with its rule and reason, and the method in words."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        one, two = rows.instance(connection, "one"), rows.instance(connection, "two", owner="")
        first = rows.lifetime(connection, one, NOW - 9 * HOUR, ended_at=NOW - 5 * HOUR)
        reminder_rows.stop(connection, one, first, NOW - 5 * HOUR)
        reminder_rows.stop(connection, one, first, NOW - 6 * HOUR, outcome="failed", error="no permission")
        second = rows.lifetime(connection, two, NOW - 60 * HOUR)
        reminder_rows.stop(connection, two, second, NOW - 30 * HOUR, outcome="shadow")
    shown = run("enforcement")
    assert shown.returncode == 0, shown.stderr
    assert "failed: no permission" in shown.stdout
    assert "5 h (to now)" in shown.stdout
    assert "$2.65 saved. An estimate" in shown.stdout
    assert "$12.72 would have been saved, of $15.90 that they cost since." in shown.stdout
    assert "preset t4: past the limit of preset t4 (8 h) by 2 h" in shown.stdout
    assert "Shadow mode: rules stop nothing yet" in shown.stdout
    later = run("enforcement", "--from", "2026-11-20", "--json")
    assert json.loads(later.stdout)["shadow_stops"] == []


def test_where_nothing_happened_a_sentence_says_so(run: Run) -> None:
    """No table without rows."""
    assert "No message is recorded yet." in run("reminders").stdout
    assert "Nothing was stopped from 2026-11-01 to 2026-11-20 (UTC)." in run("enforcement").stdout


@pytest.mark.parametrize(("option", "value"), [("--status", "lost"), ("--kind", "reply")])
def test_an_unknown_value_is_wrong_usage(run: Run, option: str, value: str) -> None:
    """It is refused before anything is asked, and what there is is named."""
    done = run("reminders", option, value)
    assert done.returncode == 2
    assert "is none of" in done.stderr
