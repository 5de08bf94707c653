"""Messages and previews over REST."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.reminders import reminder_rows

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.model.preset import Match, Preset
from costguard.model.reminder import QuietRule, Team

HOUR = timedelta(hours=1)
RULES = Rules(
    {"t4": Preset("t4", Match(), 8 * HOUR)},
    quiet=QuietRule(days=frozenset()),
    channel="#gpus",
    contact="cfo@lab.example",
    teams=(Team("vision", members=frozenset({"ada@lab.example"}), channel="#vision"),),
)


@pytest.fixture
def sent(database: Database) -> Database:
    """Three messages: a reminder that was accepted, one that failed, and a digest that waits."""
    with database.write() as connection:
        vm = rows.instance(connection, "one", gce_id="77")
        run = rows.lifetime(connection, vm, NOW - 9 * HOUR)
        run_columns = {"subject": f"run:{vm}:{run}", "instance_id": vm}
        reminder_rows.message(
            connection, "reminder/a/0/0/owner", **run_columns, accepted_at=NOW, channel="D1", ts="1.2"
        )
        reminder_rows.message(
            connection, "reminder/a/0/1/owner", **run_columns, stage=1, status="failed", error="not there"
        )
        reminder_rows.message(
            connection, "digest/daily/2026-11-20", kind="digest", status="intended", address="#gpus", attempts=1
        )
    return database


def test_messages_tell_to_whom_and_what_became_of_them(sent: Database, client: TestClient) -> None:
    """The latest first; a digest is about no VM."""
    digest, failed, accepted = client.get("/api/v1/reminders").json()["reminders"]
    assert (digest["kind"], digest["status"], digest["address"], digest["name"]) == ("digest", "intended", "#gpus", "")
    assert (digest["try_after"], digest["attempts"]) == ("2026-11-20T12:00:00Z", 1)
    assert (failed["name"], failed["stage"], failed["error"], failed["try_after"]) == ("one", 1, "not there", None)
    assert (accepted["gce_id"], accepted["project"], accepted["target"]) == ("77", "lab", "owner")
    assert accepted["accepted_at"] == "2026-11-20T12:00:00Z"


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ({"kind": "digest"}, ["digest/daily/2026-11-20"]),
        ({"status": "failed"}, ["reminder/a/0/1/owner"]),
        ({"gce_id": "77"}, ["reminder/a/0/1/owner", "reminder/a/0/0/owner"]),
        ({"subject": "run:1:1", "status": "accepted"}, ["reminder/a/0/0/owner"]),
        ({"gce_id": "78"}, []),
    ],
)
def test_messages_are_filtered(sent: Database, client: TestClient, query: dict[str, str], keys: list[str]) -> None:
    """All filters that are given must hold."""
    assert [reminder["key"] for reminder in client.get("/api/v1/reminders", params=query).json()["reminders"]] == keys


def test_pages_follow_each_other(sent: Database, client: TestClient) -> None:
    """Each message once, and the last page says that it is the last."""
    first = client.get("/api/v1/reminders", params={"limit": 2}).json()
    rest = client.get("/api/v1/reminders", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert (len(first["reminders"]), len(rest["reminders"]), rest["next_cursor"]) == (2, 1, None)


@pytest.mark.parametrize("query", [{"status": "lost"}, {"kind": "reply"}, {"cursor": "x"}, {"vm": "one"}])
def test_what_cannot_be_asked_is_refused(client: TestClient, query: dict[str, str]) -> None:
    """A misspelt filter is an error, not all messages."""
    assert client.get("/api/v1/reminders", params=query).status_code == 422


def test_a_preview_tells_what_would_be_sent_to_whom_and_why(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """The preview has the VM's money; every other VM comes with the reason why it is left alone. Nothing is written."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for name, ago in (("late", 10), ("new", 2)):
            vm = rows.instance(connection, name)
            run = rows.lifetime(connection, vm, NOW - ago * HOUR)
            if name == "late":
                rows.measured(connection, vm, NOW - ago * HOUR)
        connection.exec_driver_sql(
            "INSERT INTO people (address, user_id, name, time_zone, direct_channel, looked_up_at)"
            " VALUES ('ada@lab.example', 'U1', 'Ada', 'UTC', '', 0)"
        )
    client = client_with(rules=RULES)
    answer = client.get("/api/v1/reminders/preview").json()
    (due,) = answer["messages"]
    assert (due["name"], due["stage"], due["cycle"], due["subject"]) == ("late", 0, 0, "run:1:1")
    assert due["to"] == [{"target": "owner", "address": "ada@lab.example"}]
    assert "past the limit of preset t4 (8 h) by 2 h" in due["reason"]
    assert (due["cost"]["amount"], due["rate_per_hour"]["amount"]) == ("5.30", "0.53")
    assert "GPU under 5 %" in due["evidence"]
    (left,) = answer["left_alone"]
    assert (left["name"], left["overdue"]) == ("new", False)
    assert "running for 2 h (limit of preset t4: 8 h)" in left["reason"]
    assert (answer["channel"], answer["is_shadow"], answer["actions"]) == ("#gpus", True, [])
    assert client.get("/api/v1/reminders").json()["reminders"] == []
    assert run == 2


def test_a_preview_shows_a_stop_that_a_rule_or_a_person_wants(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """It is named with its VM and its reason."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        vm = rows.instance(connection, "late")
        run = rows.lifetime(connection, vm, NOW - 10 * HOUR)
        reminder_rows.request(connection, vm, f"run:{vm}:{run}", by="ada@lab.example", status="open")
    (action,) = client_with(rules=RULES).get("/api/v1/reminders/preview").json()["actions"]
    assert (action["action"], action["name"], action["subject"]) == ("stop", "late", "run:1:1")
    assert action["reason"]
