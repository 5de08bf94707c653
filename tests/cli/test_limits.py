"""`costguard limits` against a real server."""

from __future__ import annotations

import json

from tests.cli.conftest import Run, serving
from tests.jobs.job_service import JobSetup
from tests.jobs.queued import RULES, queue

from costguard.db.transaction import Database


def test_limits_shows_use_and_queues(sqlite_database: Database, run: Run) -> None:
    """A line a limit, and those who wait in their order, each with its sentence."""
    queue(sqlite_database)
    with serving(sqlite_database, office=JobSetup(sqlite_database, rules=RULES)) as url:
        shown = run("limits", COSTGUARD_URL=url)
        as_json = run("limits", "--json", COSTGUARD_URL=url)
    assert shown.returncode == 0, shown.stderr
    assert "1 of 1 GPUs" in shown.stdout
    assert "2 jobs waiting for gpus:" in shown.stdout
    assert shown.stdout.index("third: It waits for limit gpus") < shown.stdout.index("second: It waits for limit gpus")
    assert [limit["name"] for limit in json.loads(as_json.stdout)["limits"]] == ["gpus", "each-owner"]


def test_without_limits_it_says_how_to_set_one(sqlite_database: Database, run: Run) -> None:
    """The lines are what the settings file takes."""
    with serving(sqlite_database) as url:
        shown = run("limits", COSTGUARD_URL=url)
    assert "[limits.gpus]" in shown.stdout
