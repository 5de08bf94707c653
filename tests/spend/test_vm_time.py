"""The time for which jobs' VMs ran, by the ledger, and by attempts where that has not seen them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.db.transaction import Database
from costguard.model.attempt import AttemptState
from costguard.spend import vm_time

HOUR = timedelta(hours=1)


def of_jobs(database: Database, *job_ids: str) -> dict[str, timedelta]:
    with database.read() as connection:
        return vm_time.of_jobs(connection, job_ids, NOW)


def test_runs_of_all_vms_are_added_up(database: Database) -> None:
    """Two ended runs of one VM and an open one of another; the time between runs does not count."""
    with database.write() as connection:
        rows.project(connection, "lab")
        job_rows.added(connection, "j1")
        first = rows.instance(connection, "one", gce_id="1", job="j1")
        second = rows.instance(connection, "two", gce_id="2", job="j1")
        rows.lifetime(connection, first, NOW - 9 * HOUR, ended_at=NOW - 7 * HOUR, job="j1")
        rows.lifetime(connection, first, NOW - 5 * HOUR, ended_at=NOW - 4 * HOUR, job="j1")
        rows.lifetime(connection, second, NOW - HOUR, job="j1")
    assert of_jobs(database, "j1", "j2") == {"j1": 4 * HOUR}


def tried(connection: Any, number: int, **given: Any) -> None:
    job_rows.attempt(connection, "j1", number, gce_id=str(number), **given)


def test_a_run_that_no_look_has_shown_counts_from_when_its_vm_was_there(database: Database) -> None:
    """Unknown is not nothing: until it is gone, or stopped. A VM that never was there counts nothing."""
    with database.write() as connection:
        rows.project(connection, "lab")
        job_rows.added(connection, "j1")
        tried(connection, 1, made_at=NOW - 3 * HOUR)
        tried(connection, 2, made_at=NOW - 9 * HOUR, gone_at=NOW - 7 * HOUR, state=AttemptState.OVER)
        tried(connection, 3, made_at=None)
    assert of_jobs(database, "j1") == {"j1": 5 * HOUR}


def test_a_vm_that_was_started_again_counts_before_it_is_seen(database: Database) -> None:
    """The ledger has its first run alone; the second began an hour ago."""
    with database.write() as connection:
        rows.project(connection, "lab")
        job_rows.added(connection, "j1")
        vm = rows.instance(connection, "cg-j1-1", gce_id="1", job="j1")
        rows.lifetime(connection, vm, NOW - 9 * HOUR, ended_at=NOW - 7 * HOUR, job="j1")
        tried(connection, 1, made_at=NOW - HOUR, rested_at=NOW - 6 * HOUR)
    assert of_jobs(database, "j1") == {"j1": 3 * HOUR}
