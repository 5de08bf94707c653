"""`costguard projects` says why each project is watched, and what mends those that refuse."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.api.rows import NOW
from tests.cli.conftest import Run

from costguard.db.transaction import Database
from costguard.ledger import projects
from costguard.ledger.discovery import rows
from costguard.ledger.discovery.rules import WatchedProject
from costguard.model.observation import FoundProject, Observation, PlaceSearch, Unread

HOUR = timedelta(hours=1)
DENIED = Unread("project", "Grant the role of deploy/iam-role.yaml on project far.", "permission")


def _record(database: Database) -> None:
    with database.write() as connection:
        for project, unread in (("far", (DENIED,)), ("lost", ()), ("near", ())):
            looked = Observation(project, NOW, instances_complete=not unread, unread=unread)
            projects.record_look(connection, looked, NOW)
        stored = [
            WatchedProject("far", "17", NOW - HOUR, NOW),
            WatchedProject("lost", "18", NOW - HOUR, NOW - HOUR, missed=1, missing_since=NOW - HOUR),
        ]
        rows.store(connection, stored)
        rows.note_refusal(connection, "far", DENIED, NOW)
        search = PlaceSearch("organizations/7", (FoundProject("17", "far"),))
        rows.store_search(connection, search, None, NOW)
        rows.store_search(connection, PlaceSearch("folders/8", unread=DENIED), None, NOW)


def test_projects_show_their_origin_and_what_is_wrong(sqlite_database: Database, run: Run) -> None:
    """Listed or found, refusing or lost by the searches; searches that fail are in capitals."""
    _record(sqlite_database)
    done = run("projects")
    assert done.returncode == 0, done.stderr
    _, far, lost, near, *rest = done.stdout.splitlines()
    assert ("found" in far, "refuses since" in far) == (True, True)
    assert ("found" in lost, "not found since" in lost) == (True, True)
    assert near.split()[:2] == ["near", "listed"]
    tail = "\n".join(rest)
    assert "3 projects, 2 of them read" in tail
    assert "organizations/7: 1 project found, last searched" in tail
    assert "folders/8: 0 projects found, last searched never." in tail
    assert "SEARCHES FAIL since" in tail
    assert "NOT READ: 1. `costguard projects --refusing` says why" in tail


def test_refusing_projects_come_with_what_mends_them(sqlite_database: Database, run: Run) -> None:
    """They alone, each with Google's reason and the command; as JSON too."""
    _record(sqlite_database)
    text = run("projects", "--refusing").stdout
    assert "NOT READ: far: Grant the role of deploy/iam-role.yaml on project far." in text
    assert "gcloud projects add-iam-policy-binding far" in text
    assert "near" not in text
    listed = json.loads(run("projects", "--refusing", "--json").stdout)["projects"]
    assert [one["project"] for one in listed] == ["far"]
