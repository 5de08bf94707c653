"""The state of queues as the rows have it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.api.rows import NOW
from tests.jobs import job_rows as stored
from tests.jobs.queued import ONE_GPU, queue

from costguard.db.transaction import Database
from costguard.jobs.reports.limits.limit_state import QueueReader
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.limits import limit_rows
from costguard.jobs.rows.limits.limit_rows import LimitAttribution
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import JobState

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(("minutes", "next_job"), [(1, "ja"), (6, "jc")], ids=["a minute ago", "too long ago"])
def test_a_job_that_lost_its_vm_keeps_its_place(database: Database, minutes: int, next_job: str) -> None:
    """Others wait behind it for five minutes; after that the next one has its GPU."""
    queue(database)
    with database.write() as connection:
        (running,) = attempts.of_jobs(connection, ["ja"])["ja"]
        ended_at = NOW - minutes * MINUTE
        over, lost = AttemptState.OVER, Outcome.PREEMPTED
        attempts.change(connection, running.id, list(AttemptState), state=over, outcome=lost, ended_at=ended_at)
        job_rows.set_state(connection, "ja", JobState.RECOVERING, "lost", None, NOW)
    with database.read() as connection:
        turns = QueueReader([ONE_GPU]).read(connection, NOW).line_up([ONE_GPU], {}, NOW)
    assert next((turn.wanted.job for turn in turns if turn.count), "") == next_job


def test_an_attempt_that_never_had_a_vm_counts_for_nothing(database: Database) -> None:
    """Google had no room for it; what is being deleted counts until it is known to be gone."""
    with database.write() as connection:
        for number, (outcome, gce_id) in enumerate([(Outcome.STOCKOUT, ""), (Outcome.PREEMPTED, "7")], 1):
            stored.added(connection, f"j{number}")
            stored.attempt(connection, f"j{number}", state=AttemptState.ENDING, outcome=outcome, gce_id=gce_id)
    with database.read() as connection:
        uses = limit_rows.uses(connection, LimitAttribution(()), with_others=False)
    assert [(use.job, use.amount.gpus) for use in uses] == [("j2", 1)]


def test_past_use_is_that_of_one_day(database: Database) -> None:
    """An hour of a VM that runs, and of one that ended within the day the part that is in it."""
    queue(database)
    with database.write() as connection:
        stored.added(connection, "jd", owner="dan@lab.example", state=JobState.SUCCEEDED)
        gone: dict[str, Any] = {"state": AttemptState.OVER, "outcome": Outcome.SUCCEEDED, "gce_id": "9"}
        stored.attempt(connection, "jd", made_at=NOW - 30 * 60 * MINUTE, ended_at=NOW - 23 * 60 * MINUTE, **gone)
    with database.read() as connection:
        past = limit_rows.past_uses(connection, LimitAttribution(()), NOW)
    assert {use.by.owner: use.amount_seconds.gpus for use in past} == {"ada@lab.example": 3600, "dan@lab.example": 3600}
