"""The API shows the settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from tests.api.rows import NOW
from tests.jobs.job_rows import added, attempt

from costguard.access.rules import Rules, by_name
from costguard.db.tables import attempts
from costguard.db.transaction import Database
from costguard.model.preset import Match, Preset
from costguard.model.reminder import Enforcement, ReminderRule
from costguard.model.utilisation import IdleRule

HOUR = timedelta(hours=1)


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. These answers rest on no SQL of either kind."""
    return sqlite_database


def test_presets_show_what_follows_the_limit(client_with: Callable[..., TestClient]) -> None:
    """The figures are in seconds and percents; null where idleness is not used."""
    rule = ReminderRule(2 * HOUR, 1, 12 * HOUR, Enforcement.STOP, 2, HOUR / 2)
    presets = [
        Preset("dear", Match(gpu_count_min=2), 8 * HOUR, "large", IdleRule(500, 1000, HOUR / 2), rule),
        Preset("other", Match(), None),
    ]
    answer = client_with(rules=Rules(by_name(presets))).get("/api/v1/presets").json()
    dear, other = answer["presets"]
    assert dear["idle"] == {
        "window_seconds": 1800,
        "gpu_below_percent": 5,
        "sm_below_percent": 5,
        "cpu_below_percent": 10,
    }
    assert dear["reminders"] == {
        "every_seconds": 7200,
        "keeps": 1,
        "longest_keep_seconds": 43200,
        "when_unanswered": "stop",
        "stop_after": 2,
        "grace_seconds": 1800,
    }
    assert (other["idle"], other["reminders"]["when_unanswered"]) == (None, "remind")


def test_presets_show_how_long_their_vms_took_to_start(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """The times are in seconds, in all zones and in each; a preset that has started no VM has none, and no slowest."""
    with database.write() as connection:
        for number, minutes in enumerate((4, 6, 8)):
            asked_at = NOW - HOUR - number * HOUR
            added(connection, f"job{number}", preset="dear")
            made = attempt(connection, f"job{number}")
            moments = {"intended_at": asked_at, "started_at": asked_at + timedelta(minutes=minutes)}
            changed = update(attempts).where(attempts.c.id == made.id)
            connection.execute(changed.values(run=1, restarts=0, **moments))
    presets = [Preset("dear", Match(gpu_count_min=2), None), Preset("other", Match(), None)]
    dear, other = client_with(rules=Rules(by_name(presets))).get("/api/v1/presets").json()["presets"]
    assert dear["starts"]["count"] == 3
    assert dear["starts"]["usual_seconds"] == 360
    assert dear["starts"]["slowest_seconds"] is None
    assert list(dear["starts_by_zone"].values()) == [dear["starts"]]
    assert (other["starts"], other["starts_by_zone"]) == (None, {})
