"""Slack about sweeps: one card for all members, their end, and of a single member only what loses work."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.jobs.job_service import JobSetup, priced
from tests.sweeps import sweep_story
from tests.sweeps.sweep_story import ID

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.rows import job_rows
from costguard.ledger.accrual import accrual_at
from costguard.messages import job_update, sweep_update
from costguard.messages.outbox import Composed, Withdrawn
from costguard.model.event import Event, new_event
from costguard.model.job import JobState
from costguard.sweeps import listing
from costguard.sweeps.turn import SweepsTurn


@pytest.fixture
def office(sqlite_database: Database) -> JobSetup:
    office = JobSetup(priced(sqlite_database))
    sweep_story.tell(office)
    return office


def events(office: JobSetup, *kinds: str) -> list[Event]:
    with office.database.read() as connection:
        return [one.event for kind in kinds for one in audit_log.read(connection, kind=kind)]


def end(office: JobSetup) -> None:
    """Members 3 and 4 are launched, and succeed."""
    ids = iter(("sm3", "sm4"))
    SweepsTurn(office.database, office.clock, lambda: next(ids)).run()
    with office.database.write() as connection:
        for job_id in ("sm3", "sm4"):
            job_rows.set_state(connection, job_id, JobState.SUCCEEDED, "finished", None, office.clock.now())
    SweepsTurn(office.database, office.clock, lambda: next(ids)).run()


def test_sweep_has_one_card_and_its_members_none(office: JobSetup) -> None:
    """The owner gets one message, whatever becomes of 24 members one by one."""
    end(office)
    with office.database.read() as connection:
        mine = list(sweep_update.messages_of(connection, events(office, *sweep_update.KINDS)))
        failed = [new_event(kind, NOW, "text", "sm2", data={"job": "sm2"}) for kind in ("JobFailed", "JobResumed")]
        of_members = list(job_update.messages_of(connection, failed, Rules({}), NOW))
    assert [(message.kind, message.address) for message in mine] == [
        ("sweep", "ada@lab.example"),
        ("notification", "ada@lab.example"),
    ]
    assert of_members == []


def test_lost_work_of_a_member_is_told_in_the_thread(office: JobSetup) -> None:
    """A disk that runs full is reported there too; a loss of minutes is not worth a message."""

    def lost(seconds: int) -> Event:
        return new_event("JobRestartedFromZero", NOW, "text", seconds, data={"job": "sm2", "seconds": seconds})

    disk = new_event("DiskNearlyFull", NOW, "text", "x", data={"job": "sm2"})
    with office.database.read() as connection:
        messages = list(job_update.messages_of(connection, [lost(60), lost(9000), disk], Rules({}), NOW))
    assert [message.thread for message in messages] == [sweep_update.thread_of(ID)] * 2


def test_card_shows_how_far_the_members_are(office: JobSetup) -> None:
    """Counts, what failed with its job, the cost, and the ceiling; then how to go on."""
    with office.database.read() as connection:
        overview = listing.sweep_detail(connection, accrual_at(connection, NOW), ID)
    assert overview is not None
    card = sweep_update.content(overview, "https://guard.example/sweeps/x")
    assert card.title == "Sweep lr is running"
    assert card.figures["Members"] == "1 of 4 succeeded, 0 open, 2 waiting"
    assert card.figures["Failed"] == "2 (sm2)"
    assert card.figures["Cost so far"] == "$0.00 of at most $40.00"


def test_end_says_how_to_go_on(office: JobSetup) -> None:
    """A member failed: the sweep can be resumed. Once it is, its end is no news any more."""
    end(office)
    (event,) = events(office, "SweepFailed")
    with office.database.read() as connection:
        composed = sweep_update.news(connection, accrual_at(connection, NOW), event, "")
    assert isinstance(composed, Composed)
    assert composed.content.what_next == f"Go on with what is left: costguard sweep resume {ID}"  # type: ignore[union-attr]
    office.clock.advance(timedelta(minutes=1))
    office.sweeps.resume(ID, "ada@lab.example")
    with office.database.read() as connection:
        again = sweep_update.news(connection, accrual_at(connection, NOW), event, "")
    assert isinstance(again, Withdrawn)
