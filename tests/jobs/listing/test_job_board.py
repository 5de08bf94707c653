"""The board shows the state of all open jobs."""

from __future__ import annotations

from tests.jobs import job_rows

from costguard.db.transaction import Database
from costguard.jobs.listing import jobs as listing
from costguard.jobs.listing.jobs import JobCount
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import JobState
from costguard.model.money import Money, Priced


def test_open_jobs_are_counted_and_what_their_vms_cost_is_added_up(database: Database) -> None:
    """Jobs that are over do not count; a VM whose rate is not known makes the sum less than all of it."""
    with database.write() as connection:
        job_rows.added(connection, "a0000001", state=JobState.RUNNING)
        job_rows.added(connection, "a0000002", state=JobState.RUNNING)
        job_rows.added(connection, "a0000003", state=JobState.QUEUED, owner="bob@lab.example")
        job_rows.added(connection, "a0000004", state=JobState.FAILED)
        job_rows.attempt(connection, "a0000001", state=AttemptState.RUNNING, rate=Money.of("1.5"))
        job_rows.attempt(connection, "a0000002", state=AttemptState.BOOTING, rate=Money.of("0.25"))
        job_rows.attempt(connection, "a0000003", state=AttemptState.RESTING, rate=Money.of(7))
        over = job_rows.attempt(connection, "a0000004", state=AttemptState.OVER, outcome=Outcome.CRASHED)
        assert over.rate is not None
        running = {AttemptState.RUNNING, AttemptState.BOOTING, AttemptState.OVER}
        result = set(listing.open_job_counts(connection))
        assert result == {
            JobCount(JobState.RUNNING, "ada@lab.example", "t4", 2),
            JobCount(JobState.QUEUED, "bob@lab.example", "t4", 1),
        }
        assert listing.hourly_rate(connection, running) == Priced(Money.of("1.75"))
        job_rows.attempt(connection, "a0000002", 2, state=AttemptState.RUNNING, rate=None)
        assert listing.hourly_rate(connection, running) == Priced(Money.of("1.75"), False)
        assert listing.hourly_rate(connection, {AttemptState.ASKED}) == Priced()
