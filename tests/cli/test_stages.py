"""`costguard stages` against a real server."""

from __future__ import annotations

from dataclasses import replace

from tests.api.conftest import Standstill
from tests.api.rows import NOW
from tests.cli.conftest import Run, serving
from tests.stages.staged import DIGEST, REPORT, RULES, SIZE, SOURCE, job

from costguard.db.transaction import Database
from costguard.jobs.rows import job_rows
from costguard.model.job import JobState
from costguard.stages.reports import StageReports


def test_stages_lists_what_is_stored_and_deletes_what_no_job_uses(sqlite_database: Database, run: Run) -> None:
    """The beginning of a digest is enough; a stage in use stays, and the error says why."""
    with sqlite_database.write() as connection:
        name = job(connection, vms=1)[0]
    report = replace(REPORT, from_source=SIZE, staged=SIZE, is_whole=True)
    StageReports(sqlite_database, Standstill(), RULES).answer(name, report)
    with serving(sqlite_database) as url:
        shown = run("stages", COSTGUARD_URL=url)
        refused = run("stages", "--delete", DIGEST[:6], "--owner", "ana@example.com", COSTGUARD_URL=url)
        with sqlite_database.write() as connection:
            job_rows.set_state(connection, "j1", JobState.SUCCEEDED, "It is done.", None, NOW)
        deleted = run("stages", "--delete", DIGEST[:6], "--owner", "ana@example.com", COSTGUARD_URL=url)
        unknown = run("stages", "--delete", "fff", COSTGUARD_URL=url)
    assert shown.returncode == 0, shown.stderr
    assert SOURCE in shown.stdout
    assert "whole, in use" in shown.stdout
    assert "used by j1 (ada@lab.example)." in shown.stdout
    assert "The price of storage is not known of 1 stage." in shown.stdout
    assert (refused.returncode, "Open jobs use" in refused.stderr) == (1, True)
    assert f"The staged copy of {SOURCE} is deleted within minutes: 100.0 GiB." in deleted.stdout
    assert unknown.returncode == 2


def test_without_stages_it_says_what_to_set(run: Run) -> None:
    """Nothing is staged where no bucket is named."""
    assert "No bucket is set for stages" in run("stages").stdout
