"""Job updates in Slack: each event once, routine ones in one thread under a card that is kept true."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Connection
from tests.api import rows
from tests.api.rows import NOW
from tests.fakes import FakeNotifier, FakePost, HandClock
from tests.jobs import job_rows

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.rows import agent_rows, attempts
from costguard.jobs.rows import job_rows as jobs
from costguard.jobs.rows.recovery import interruptions
from costguard.messages import message_log, outbox_rows
from costguard.messages.job_update import CardComposer
from costguard.messages.message_log import MessageFilters
from costguard.messages.notification import NotificationComposer, NotificationWatch
from costguard.messages.outbox import Composed, Outbox, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.attempt import AgentState, AttemptState, Interruption, Notice, Outcome
from costguard.model.delivery.message import NotificationContent
from costguard.model.delivery.person import Person
from costguard.model.job import JobKind, JobState
from costguard.model.money import Money
from costguard.model.reminder import Team

ADA = Person("U0ADA", "ada@lab.example", "Ada", "Europe/Madrid")
ADAS = "D-U0ADA"
RULES = Rules({}, channel="#gpus", teams=(Team("vision", members=frozenset({ADA.address}), channel="#vision"),))
JOB = "j7k2m9q4"
URL = "https://guard.example"


class JobMessages:
    """A ledger with one job that runs, and what sends messages about it to a Slack in memory."""

    def __init__(self, database: Database) -> None:
        self.database, self.clock = database, HandClock(NOW)
        self.slack = FakeNotifier(self.clock, [ADA])
        self.cards, self.news = CardComposer(URL), NotificationComposer(RULES, URL)
        self.outbox = Outbox(database, self.slack, self._compose, self.clock, "#gpus", self._changed)

    def _compose(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        return (self.cards if message.kind == "job" else self.news)(connection, message, now)

    def _changed(self, connection: Connection, live: Sequence[StoredMessage], now: datetime) -> list[StoredMessage]:
        return self.cards.changed(connection, live, now)

    def happened(self, kind: str, text: str = "It did.", **given: object) -> None:
        with self.database.write() as connection:
            key = f"{kind}:{JOB}:{self.clock.now().isoformat()}"
            rows.event(connection, key, self.clock.now(), kind=kind, text=text, data={"job": JOB}, **given)

    def interrupted(self) -> None:
        """Preempts its second attempt."""
        now = self.clock.now()
        with self.database.write() as connection:
            second = attempts.of_jobs(connection, [JOB])[JOB][1]
            interruptions.add(connection, Interruption(second.id, JOB, 1, Outcome.PREEMPTED, now, now, Notice.NOTICE))

    def stands(self, state: JobState, reason: str) -> None:
        with self.database.write() as connection:
            jobs.set_state(connection, JOB, state, reason, None, self.clock.now())

    def new_posts(self) -> list[FakePost]:
        """Returns the messages in Slack once all is sent, after a second look by a guard that was started again."""
        for _ in range(2):
            NotificationWatch(self.database, self.clock, RULES, "#costs").intend()
        while (wait := self.outbox.deliver()) is not None:
            self.clock.advance(max(wait, timedelta(seconds=1)))
        self.clock.advance(timedelta(minutes=1))
        self.outbox.deliver()
        return self.slack.posts

    def statuses(self) -> dict[str, str]:
        with self.database.read() as connection:
            return {
                item.key: item.status for item in message_log.messages_page(connection, MessageFilters(), None, 100)
            }


def content(post: FakePost) -> NotificationContent:
    assert isinstance(post.content, NotificationContent)
    return post.content


@pytest.fixture
def office(sqlite_database: Database) -> JobMessages:
    with sqlite_database.write() as connection:
        rows.prices(connection)
        job_rows.added(connection, state=JobState.RUNNING, reason="It runs.", ceiling=Money.of(40))
        first = job_rows.attempt(connection, state=AttemptState.OVER, outcome=Outcome.PREEMPTED)
        second = job_rows.attempt(connection, number=2, state=AttemptState.RUNNING)
        agent_rows.hear(connection, second.id, AgentState(NOW, 1, step=12_000, output="step 11999\nstep 12000\n"))
        lost = Interruption(
            first.id, JOB, 1, Outcome.PREEMPTED, NOW, NOW, Notice.NOTICE, resumed_at=NOW + timedelta(minutes=4),
            lost=timedelta(minutes=12), lost_cost=Money.of("0.05"),
        )  # fmt: skip
        interruptions.add(connection, lost)
        vm = rows.instance(connection, "cg-j7k2m9q4-2", job=JOB)
        rows.lifetime(connection, vm, NOW - timedelta(hours=10), job=JOB)
    return JobMessages(sqlite_database)


def test_recoveries_are_one_thread_to_the_owner_under_a_card(office: JobMessages) -> None:
    """The first is the card itself, the second replies to it; nothing is sent twice."""
    office.happened("JobResumed", "resnet runs again in us-central1-b from step 12,000.")
    office.new_posts()
    office.clock.advance(timedelta(hours=1))
    office.interrupted()
    office.clock.advance(timedelta(minutes=5))
    office.happened("JobResumed", "resnet runs again in us-central1-c.")
    card, reply = office.new_posts()
    assert {post.channel for post in (card, reply)} == {ADAS}
    assert (card.thread_ts, reply.thread_ts) == ("", card.ts)
    assert content(card).title == "resnet is running"
    assert content(reply).text == "resnet runs again in us-central1-c."
    assert content(card).url == "https://guard.example/jobs/j7k2m9q4"
    assert content(card).figures == {
        "Job": "j7k2m9q4, preset t4",
        "Owner": "ada@lab.example",
        "VM": "cg-j7k2m9q4-2 in us-central1-a, Spot",
        "Step": "12,000",
        "Attempts": "2, 1 preempted",
        "Cost so far": "$5.30 of at most $40.00",
        "Last recovery": "back after 4 min",
        "Work lost": "12 min, $0.05",
    }


def test_the_card_is_edited_until_the_job_is_over(office: JobMessages) -> None:
    """The card shows the job's present state, with the end of its output where it failed."""
    office.happened("JobResumed")
    office.new_posts()
    office.stands(JobState.RECOVERING, "It was preempted, and waits for a place.")
    (card,) = office.new_posts()
    assert (content(card).title, content(card).text) == (
        "resnet is recovering",
        "It was preempted, and waits for a place.",
    )
    office.stands(JobState.FAILED, "It crashed three times.")
    office.new_posts()
    assert content(card).title == "resnet has failed"
    assert content(card).output == "step 11999\nstep 12000"
    with office.database.read() as connection:
        assert outbox_rows.live(connection) == []


def test_a_failure_is_told_to_the_owner_and_in_the_teams_channel(office: JobMessages) -> None:
    """The message has the last lines that its command printed, and is not hidden in a thread."""
    office.stands(JobState.FAILED, "It crashed three times.")
    office.happened("JobFailed", "resnet failed: it crashed three times.")
    first, second = office.new_posts()
    assert [(post.channel, post.thread_ts) for post in (first, second)] == [(ADAS, ""), ("C-vision", "")]
    for post in (first, second):
        assert (content(post).icon, content(post).title) == ("failed", "resnet has failed")
        assert content(post).output == "step 11999\nstep 12000"
        assert content(post).what_next == "See all of its output: costguard output j7k2m9q4"


def test_starting_from_zero_is_loud(office: JobMessages) -> None:
    """A message of its own to the owner and to the team, with what was lost and how to see why."""
    office.happened("JobRestartedFromZero", "resnet started again from zero: $5.30 of work is lost.")
    first, second = office.new_posts()
    assert [post.channel for post in (first, second)] == [ADAS, "C-vision"]
    assert (content(first).icon, content(first).figures["Work lost"]) == ("alarm", "12 min, $0.05")
    assert content(first).what_next.endswith("costguard checkpoints gs://lab/run")


@pytest.mark.parametrize(
    ("kind", "icon", "title"),
    [
        ("JobSucceeded", "done", "resnet has finished"),
        ("CheckpointsStalled", "trouble", "resnet is saving no checkpoints"),
        ("JobDeadlineAtRisk", "late", "resnet may miss its deadline"),
        ("JobDeadlinePassed", "late", "resnet is past its deadline"),
    ],
)
def test_what_the_owner_has_to_know_stands_by_itself(office: JobMessages, kind: str, icon: str, title: str) -> None:
    """The message is in no thread, and for the owner alone."""
    office.happened(kind)
    (post,) = office.new_posts()
    assert (post.channel, post.thread_ts) == (ADAS, "")
    assert (content(post).icon, content(post).title) == (icon, title)


def test_unrecognised_checkpoints_are_reported_in_the_jobs_thread(office: JobMessages) -> None:
    """The card is posted for it; how to see what lies there comes with it."""
    office.happened("CheckpointsUnrecognised", "resnet is not protected: launch it with --pattern 'net_{step}.pkl'.")
    card, reply = office.new_posts()
    assert (card.channel, card.thread_ts) == (ADAS, "")
    assert (reply.channel, reply.thread_ts) == (ADAS, card.ts)
    assert (content(reply).icon, content(reply).title) == ("trouble", "resnet: its checkpoints are not recognised")
    assert "--pattern 'net_{step}.pkl'" in content(reply).text
    assert content(reply).what_next.endswith("costguard checkpoints gs://lab/run")


def test_a_hang_stands_in_the_jobs_thread_with_its_last_output(office: JobMessages) -> None:
    """The message is below the card, which is posted for it if there is none; the owner alone is notified."""
    office.happened("JobHangs", "resnet seems to hang.")
    card, reply = office.new_posts()
    assert (card.channel, card.thread_ts) == (ADAS, "")
    assert (reply.channel, reply.thread_ts) == (ADAS, card.ts)
    assert (content(reply).icon, content(reply).title) == ("trouble", "resnet seems to hang")
    assert content(reply).output == "step 11999\nstep 12000"
    assert "costguard cancel j7k2m9q4" in content(reply).what_next
    office.clock.advance(timedelta(minutes=5))
    office.happened("JobGoesOn", "resnet makes progress again.")
    again = office.new_posts()[-1]
    assert (again.thread_ts, content(again).title) == (card.ts, "resnet makes progress again")


@pytest.mark.parametrize(("actor", "count"), [("ben@lab.example", 1), ("Ada@lab.example", 0)])
def test_a_cancel_is_told_unless_it_was_the_owners_own(office: JobMessages, actor: str, count: int) -> None:
    """The person who pressed knows already."""
    office.stands(JobState.CANCELLED, f"{actor} cancelled it.")
    office.happened("JobCancelled", actor=actor)
    assert len(office.new_posts()) == count


def test_what_is_not_true_any_more_is_not_sent(office: JobMessages) -> None:
    """It waited, and runs by now; or the job is over, and only its end is reported."""
    office.happened("JobWaits")
    (card,) = office.new_posts()
    assert content(card).title == "resnet is running"
    assert sorted(office.statuses().values()) == ["accepted"]
    office.clock.advance(timedelta(minutes=5))
    office.interrupted()
    office.clock.advance(timedelta(seconds=1))
    office.happened("JobResumed")
    office.stands(JobState.SUCCEEDED, "It is done.")
    office.clock.advance(timedelta(seconds=1))
    office.happened("JobSucceeded")
    assert [content(post).title for post in office.new_posts()] == ["resnet has finished", "resnet has finished"]
    assert sorted(office.statuses().values()) == ["accepted", "accepted", "withdrawn"]


def test_a_card_of_a_job_that_is_over_is_not_begun(office: JobMessages) -> None:
    """Slack was away for as long as the job lasted."""
    office.happened("JobResumed")
    office.stands(JobState.SUCCEEDED, "It is done.")
    assert office.new_posts() == []
    assert set(office.statuses().values()) == {"withdrawn"}


def test_events_of_jobs_that_are_not_known_are_passed_over(office: JobMessages) -> None:
    """An event alone says nothing about whose it is; and a dev VM is called one."""
    with office.database.write() as connection:
        rows.event(connection, "JobFailed:other", NOW, kind="JobFailed", data={"job": "other"})
        job_rows.added(connection, "d7k2m9q4", kind=JobKind.DEV, name="")
        rows.event(connection, "JobSucceeded:dev", NOW, kind="JobSucceeded", data={"job": "d7k2m9q4"})
    (post,) = office.new_posts()
    assert content(post).title == "Dev VM d7k2m9q4 has finished"
    with office.database.read() as connection:
        assert audit_log.read(connection, kind="JobFailed")
