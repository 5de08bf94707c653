"""The API shows the settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from tests.api.rows import NOW
from tests.jobs.job_rows import added, attempt

from costguard.access.rules import Rules, by_name
from costguard.db.tables import attempts
from costguard.db.transaction import Database
from costguard.ledger import projects
from costguard.ledger.discovery import rows as discovered
from costguard.ledger.discovery.rules import WatchedProject
from costguard.model.observation import FoundProject, Observation, PlaceSearch, Unread
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


def _shown(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def test_projects_say_why_they_are_watched_and_since_when_they_refuse(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """A listed project, a found one that refuses, and the state of the searches are shown as they are stored."""
    denied = Unread("project", "Grant the role.", "permission")
    with database.write() as connection:
        for project, unread in (("far", (denied,)), ("near", ())):
            looked = Observation(project, NOW, instances_complete=not unread, unread=unread)
            projects.record_look(connection, looked, NOW)
        row = WatchedProject("far", "17", NOW - 3 * HOUR, NOW - HOUR, missed=1, missing_since=NOW - HOUR / 2)
        discovered.store(connection, [row])
        discovered.note_refusal(connection, "far", denied, NOW - 2 * HOUR)
        discovered.store_search(connection, PlaceSearch("folders/7", (FoundProject("17", "far"),)), None, NOW - HOUR)
        (before,) = discovered.places(connection)
        discovered.store_search(connection, PlaceSearch("folders/7", unread=denied), before, NOW)
    answer = client_with(listed=frozenset({"near"})).get("/api/v1/projects").json()
    far, near = answer["projects"]
    assert (far["is_listed"], near["is_listed"]) == (False, True)
    assert (far["found_at"], near["found_at"]) == (_shown(NOW - 3 * HOUR), None)
    assert (far["refused_since"], near["refused_since"]) == (_shown(NOW - 2 * HOUR), None)
    assert far["missing_since"] == _shown(NOW - HOUR / 2)
    (place,) = answer["searches"]
    assert (place["project_count"], place["searched_at"]) == (1, _shown(NOW - HOUR))  # of the last that succeeded
    assert (place["failed_since"], place["failure"]) == (_shown(NOW), "Grant the role.")


def test_fifty_projects_that_refuse_are_one_warning(database: Database, client_with: Callable[..., TestClient]) -> None:
    """Three are named, the rest counted; a zone that is not read has a warning of its own."""
    denied, zone = Unread("project", "Grant the role.", "permission"), Unread("us-east1-b", "503.", "unavailable")
    with database.write() as connection:
        for number in range(50):
            looked = Observation(f"lab-{number:02}", NOW, instances_complete=False, unread=(denied,))
            projects.record_look(connection, looked, NOW)
        projects.record_look(connection, Observation("well", NOW, unread=(zone,)), NOW)
    warnings = client_with().get("/readyz").json()["warnings"]
    refusing = [text for text in warnings if "lab-" in text]
    assert refusing == [
        "lab-00, lab-01, lab-02 and 47 more are not read (permission): "
        "`costguard projects --refusing` says of each what mends it."
    ]
    assert any(text.startswith("well, us-east1-b: 503.") for text in warnings)
