"""A recovery makes one message, and none that the job's card makes needless."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.builders import at
from tests.jobs.jobbed import interruption

from costguard.messages.announcing import Card, Form, JobEvent, announced
from costguard.model.attempt import Interruption, Outcome
from costguard.model.event import Event

QUICK = timedelta(minutes=10)
CARD = Card("JobResumed/09:00", 0)


def event(kind: JobEvent, when: str, attempt: str = "cg-j1-2", **data: object) -> Event:
    return Event(f"{kind}/{when}", kind, at(when), "text", "acme", data={"job": "j1", "attempt": attempt, **data})


def cut(number: int, when: str, outcome: Outcome = Outcome.PREEMPTED) -> Interruption:
    return interruption(number, happened_at=at(when), outcome=outcome)


def said(
    *news: Event, cuts: tuple[Interruption, ...] = (), card: Card | None = CARD, now: datetime = at("12:00")
) -> list[tuple[str, Form, bool]]:
    result = announced(news, cuts, card, QUICK, now)
    return [(item.event.kind, item.form, item.is_for_team) for item in result]


def test_the_first_recovery_is_the_card_itself() -> None:
    """The root of the thread says it; a reply below it would say it twice."""
    resumed = event(JobEvent.RESUMED, "11:00")
    assert said(resumed, cuts=(cut(1, "10:55"),), card=None) == [(JobEvent.RESUMED, Form.CARD, False)]
    assert said(resumed, cuts=(cut(1, "10:55"),), card=Card(resumed.key, 1)) == []


def test_each_later_recovery_is_one_reply() -> None:
    """The reply comes whether it had to wait for a place or not: a wait shows on the card."""
    news = (
        event(JobEvent.WAITS, "10:56"),
        event(JobEvent.RESUMED, "11:00"),
        event(JobEvent.RESUMED, "11:40", "cg-j1-3"),
    )
    cuts = (cut(1, "08:55"), cut(2, "10:55"), cut(3, "11:30"))
    assert said(*news, cuts=cuts) == [(JobEvent.RESUMED, Form.REPLY, False)] * 2


def test_a_recovery_that_posted_the_card_by_waiting_makes_no_second_message() -> None:
    """The card is edited when it runs again."""
    news = (event(JobEvent.WAITS, "10:56"), event(JobEvent.RESUMED, "11:00"))
    assert said(*news, cuts=(cut(1, "10:55"),), card=None) == [(JobEvent.WAITS, Form.CARD, False)]


def test_a_costly_start_from_zero_is_the_recoverys_message() -> None:
    """It takes the place of "runs again", stands alone, and the team sees it."""
    news = (event(JobEvent.FROM_ZERO, "10:58", seconds=3600), event(JobEvent.RESUMED, "11:00"))
    assert said(*news, cuts=(cut(1, "10:55"),)) == [(JobEvent.FROM_ZERO, Form.ALONE, True)]
    unknown = event(JobEvent.FROM_ZERO, "10:58", seconds=None)
    assert said(unknown, cuts=(cut(1, "10:55"),)) == [(JobEvent.FROM_ZERO, Form.ALONE, True)]


@pytest.mark.parametrize(("now", "count"), [("11:09", 0), ("11:10", 1)])
def test_a_crash_is_recovered_from_once_the_command_has_run_a_while(now: str, count: int) -> None:
    """Right after its start nobody knows whether it fails again."""
    crash = cut(1, "10:55", Outcome.CRASHED)
    news = (event(JobEvent.FROM_ZERO, "10:58", seconds=20), event(JobEvent.RESUMED, "11:00"))
    assert len(said(*news, cuts=(crash,), now=at(now))) == count


def test_a_budget_that_is_spent_is_said_even_below_a_card() -> None:
    """The owner can raise the limit."""
    assert said(event(JobEvent.HELD, "10:56"), cuts=(cut(1, "10:55"),)) == [(JobEvent.HELD, Form.REPLY, False)]


@pytest.mark.parametrize(
    ("kind", "team"), [(JobEvent.FAILED, True), (JobEvent.SUCCEEDED, False), (JobEvent.LATE, False)]
)
def test_an_end_stands_alone(kind: JobEvent, team: bool) -> None:
    """A failure goes to the team's channel too."""
    assert said(event(kind, "11:00")) == [(kind, Form.ALONE, team)]


def test_a_card_of_an_earlier_version_has_replies() -> None:
    """It does not say what it was posted for."""
    resumed = event(JobEvent.RESUMED, "11:00")
    assert said(resumed, cuts=(cut(1, "10:55"),), card=Card("", None)) == [(JobEvent.RESUMED, Form.REPLY, False)]
