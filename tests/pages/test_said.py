"""The page of a VM shows reminders, answers and stops."""

from __future__ import annotations

from datetime import timedelta

from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.pages.html import page_of, tidy
from tests.reminders import reminder_rows

from costguard.db.transaction import Database

HOUR = timedelta(hours=1)


def test_a_vm_tells_what_was_said_about_it_and_what_came_of_it(database: Database, client: TestClient) -> None:
    """Each reminder with its recipient and what it shows now; keeps; stops with who decided and the outcome."""
    with database.write() as connection:
        vm = rows.instance(connection, "one", gce_id="1")
        life = rows.lifetime(connection, vm, NOW - 9 * HOUR)
        subject = f"run:{vm}:{life}"
        run_columns = {"subject": subject, "instance_id": vm}
        open_, kept = "open||2026|None|ada", "kept|Kept by bob until Tue 09:00."
        reminder_rows.message(connection, "a", **run_columns, accepted_at=NOW - 3 * HOUR, shown=kept)
        reminder_rows.message(
            connection, "b", **run_columns, stage=1, accepted_at=NOW - HOUR, shown=open_, is_live=True
        )
        reminder_rows.message(
            connection, "c", **run_columns, stage=2, status="failed", error="No such channel.", address="#x"
        )
        reminder_rows.keep(connection, vm, subject, NOW + HOUR, at=NOW - 2 * HOUR, reason="nearly done")
        reminder_rows.stop(connection, vm, life, NOW, outcome="shadow")
    text = tidy(page_of(client, "/vm/lab/1").text)
    assert "Reminder 3 to #x Slack refused it No such channel." in text
    assert "Reminder 2 to ada@lab.example sent Waiting for an answer." in text
    assert "Kept by bob@lab.example until 20 Nov, 13:00 nearly done" in text
    assert "Reminder 1 to ada@lab.example sent Kept by bob until Tue 09:00." in text
    assert "Stop by preset t4 shadow mode: recorded only past the limit of preset t4 (8 h) by 2 h" in text


def test_a_vm_nobody_was_asked_about_says_so(database: Database, client: TestClient) -> None:
    """Silence is stated, instead of an empty table."""
    with database.write() as connection:
        rows.instance(connection, "one", gce_id="1")
    assert "No reminder has been sent about it." in tidy(page_of(client, "/vm/lab/1").text)
