"""Limits and their queues over REST."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.testclient import TestClient
from tests.jobs.queued import ADA, RULES, queue

from costguard.access.rules import Rules
from costguard.db.transaction import Database


def test_limits_tell_use_users_and_who_waits_in_which_order(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """The higher priority comes first; each job that waits says why, behind what and when it is expected to start."""
    queue(database)
    gpus, own = client_with(rules=RULES).get("/api/v1/limits").json()["limits"]
    assert (gpus["name"], gpus["for_each"], gpus["gpus"], gpus["dollars_per_hour"]) == ("gpus", None, 1, "5.00")
    assert gpus["used"] == {"vms": 1, "gpus": 1, "dollars_per_hour": "0.25", "unpriced": 0}
    (user,) = gpus["users"]
    assert (user["job"], user["owner"], user["ends_at"]) == ("ja", ADA, "2026-11-20T14:00:00Z")
    third, second = gpus["waiting"]
    assert [(job["job"], job["place"], job["starts_at"]) for job in (third, second)] == [
        ("jc", 1, "2026-11-20T14:00:00Z"),
        ("jb", 2, "2026-11-20T15:00:00Z"),
    ]
    assert second["why"] == (
        "It waits for limit gpus: 1 of 1 GPU in use, and it needs 1 GPU; second in line, behind job third; expected to "
        "start around 15:00 UTC, when job third is expected to end."
    )
    assert (own["value"], own["for_each"], own["used"]["vms"], own["waiting"]) == (ADA, "owner", 1, [])


def test_without_limits_there_are_none(client_with: Callable[..., TestClient]) -> None:
    """The list is empty, and nothing is read."""
    assert client_with(rules=Rules({})).get("/api/v1/limits").json()["limits"] == []


def test_limits_have_metrics_without_names_of_people(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """Use, the most, and how many wait; of a limit for each owner the one who uses the most."""
    queue(database)
    lines = client_with(rules=RULES).get("/metrics").text.splitlines()
    assert 'costguard_limit_used{limit="gpus",resource="gpus"} 1.0' in lines
    assert 'costguard_limit_most{limit="each-owner",resource="vms"} 4.0' in lines
    assert 'costguard_limit_used{limit="gpus",resource="dollars_per_hour"} 0.25' in lines
    assert 'costguard_limit_waiting_jobs{limit="gpus"} 2.0' in lines
    assert not [line for line in lines if line.startswith("costguard_limit") and "@" in line]
