"""People's requests in Slack are checked, stored once and answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection, update
from tests.access.access_setup import ADA, NAMES, SlackHandlers, press, user_id
from tests.api.rows import NOW
from tests.jobs import job_rows as stored_jobs

from costguard.db.lease import Lease
from costguard.db.tables import lifetimes
from costguard.db.transaction import Database
from costguard.errors import SlackUnavailable, StoreError
from costguard.jobs.rows import job_rows
from costguard.messages import outbox_rows
from costguard.model.delivery.interaction import JobChoice, JobClick
from costguard.model.delivery.message import EphemeralContent
from costguard.model.delivery.person import Membership, Person
from costguard.model.reminder import Request, RequestKind, Subject, SubjectKind
from costguard.reminders import request_rows, slack_accounts


@pytest.fixture
def office(sqlite_database: Database) -> Iterator[SlackHandlers]:
    office = SlackHandlers(sqlite_database)
    yield office
    office.handler.close()


def test_an_owners_press_is_stored_and_wakes_the_guard(office: SlackHandlers) -> None:
    """All that was pressed is in the request, an event says who asked for what, and nothing is done yet."""
    subject, due_at = office.running(), NOW - timedelta(hours=1)
    office.know("ada")
    office.handler.click(press(subject, kind=RequestKind.KEEP, hours=4, due_at=due_at))
    (stored,) = office.open
    expected = Request(
        "slack/T0/C0GPU/1.0/1.1/U0ADA", RequestKind.KEEP, subject, ADA, "U0ADA", "slack", NOW, hours=4, due_at=due_at
    )
    assert replace(stored, id=None) == expected
    (made,) = office.events
    assert (made.event.kind, made.event.actor, made.event.text) == (
        "RequestMade",
        ADA,
        f"{ADA} asked to keep trainer-7.",
    )
    assert (office.woken, office.ephemerals, office.slack.asked) == (1, [], [])


def test_the_same_press_twice_is_one_request(office: SlackHandlers) -> None:
    """The request is one however often Slack delivers it, by both ways in and at the same time; another press is
    another request.
    """
    subject = office.running()
    office.know("ada")
    threads = [threading.Thread(target=office.handler.click, args=(press(subject),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(office.open) == 1
    assert len(office.events) == 1
    office.handler.click(press(subject, at="2.2"))
    assert len(office.open) == 2


def about_a_job(by: str, choice: JobChoice, at: str = "1.1") -> JobClick:
    user = user_id(by)
    return JobClick(f"slack/T0/C0GPU/1.0/{at}/{user}", user, "C0GPU", "1.0", "", "j7k2m9q4", choice)


def test_a_choice_about_a_job_is_stored_once(office: SlackHandlers) -> None:
    """The choice is stored once however often Slack delivers it, also after it was taken back."""
    with office.database.write() as connection:
        stored_jobs.added(connection, "j7k2m9q4", owner=ADA)
    office.know("ada")
    office.handler.click(about_a_job("ada", JobChoice.STOP_AFTER))
    office.handler.click(about_a_job("ada", JobChoice.NEVER_MIND, at="2.2"))
    office.handler.click(about_a_job("ada", JobChoice.STOP_AFTER))
    with office.database.read() as connection:
        job = job_rows.read(connection, "j7k2m9q4")
    assert job is not None
    assert (job.cancel_after_at, job.never_mind_by) == (None, ADA)
    made = [one.event.text for one in office.events if one.event.kind == "RequestMade"]
    assert sorted(made) == [
        f"{ADA} asked for no hint about job j7k2m9q4.",
        f"{ADA} asked to stop after its next checkpoint job j7k2m9q4.",
    ]


def test_a_choice_about_a_job_of_another_is_refused_in_private(office: SlackHandlers) -> None:
    """The refusal says who may; nothing changes. A job that is not there is refused likewise."""
    office.know("vic")
    office.handler.click(about_a_job("vic", JobChoice.NEVER_MIND, at="2.2"))
    with office.database.write() as connection:
        stored_jobs.added(connection, "j7k2m9q4", owner=ADA)
    office.handler.click(about_a_job("vic", JobChoice.STOP_AFTER))
    missing, refused = office.ephemerals
    assert "There is no job" in missing
    assert f"Only {ADA}" in refused
    with office.database.read() as connection:
        job = job_rows.read(connection, "j7k2m9q4")
    assert job is not None
    assert job.cancel_after_at is None
    assert [one.event.kind for one in office.events] == ["RequestRefused", "RequestRefused"]


# Who may ask what of ada's VM, whose team is vision, and of an unowned one of no team.
_HERS = {"ada", "tess", "olaf", "adam"}
_MAY = {
    **{(kind, "hers"): _HERS for kind in RequestKind},
    **{(kind, "unowned"): {"olaf", "olga", "adam"} for kind in RequestKind},
}


@pytest.mark.parametrize("whose", ["hers", "unowned"])
@pytest.mark.parametrize("kind", list(RequestKind))
def test_who_may_press_what(office: SlackHandlers, kind: RequestKind, whose: str) -> None:
    """Owner, the team's operators and admins; operators what is unowned. Others are refused in private."""
    subject = office.running(owner=ADA if whose == "hers" else "")
    office.know(*NAMES)
    for name in NAMES:
        office.handler.click(press(subject, name, kind))
    may = _MAY[kind, whose]
    assert {request.user_id for request in office.open} == {user_id(name) for name in may}
    assert len(office.ephemerals) == len(NAMES) - len(may)
    assert all("trainer-7" in text for text in office.ephemerals)
    reported = [event.event for event in office.events]
    assert {event.actor for event in reported if event.kind == "RequestRefused"} == {
        f"{name}@lab.example" for name in set(NAMES) - may
    }


def test_a_refusal_is_ephemeral_in_the_channel_of_the_click(office: SlackHandlers) -> None:
    """The stored message has the person, the channel and the thread, and a repeated click adds none."""
    subject = office.running()
    office.know("vic")
    for _ in range(2):
        office.handler.click(press(subject, "vic", thread_ts="0.9"))
    with office.database.read() as connection:
        (waiting,) = outbox_rows.waiting(connection, NOW, 10)
    assert waiting.address == "U0VIC"
    assert (waiting.data["channel"], waiting.data["thread_ts"]) == ("C0GPU", "0.9")
    assert waiting.data["text"] == f"Only {ADA}, an operator of team vision or an admin can stop trainer-7."
    assert len(office.events) == 1


def test_a_stranger_is_looked_up_after_the_answer(office: SlackHandlers) -> None:
    """Slack is asked who it is while the press is already answered, and only once."""
    subject = office.running()
    office.slack.slow = threading.Event()
    office.handler.click(press(subject))
    assert office.open == []
    office.slack.slow.set()
    office.handler.close()
    assert [request.by for request in office.open] == [ADA]
    with office.database.read() as connection:
        met = slack_accounts.by_user_id(connection, "U0ADA")
    assert met is not None
    assert (met.address, met.person) == (ADA, office.slack.people["U0ADA"])


def test_an_address_is_not_believed_for_ever(office: SlackHandlers) -> None:
    """An hour after someone was looked up, Slack is asked for their address again."""
    office.know("ada")
    subject = office.running()
    office.clock.advance(timedelta(hours=1))
    office.slack.people["U0ADA"] = Person("U0ADA", "ada@elsewhere.example", "Ada")
    office.handler.click(press(subject))
    office.handler.close()
    assert office.open == []
    assert len(office.ephemerals) == 1


def test_a_repeat_after_all_was_done_says_nothing(office: SlackHandlers) -> None:
    """A press that is delivered once more when its VM has stopped is not refused: it was carried out."""
    office.know("ada")
    subject = office.running()
    office.handler.click(press(subject))
    with office.database.write() as connection:
        request_rows.settle(connection, office.open[0].id, "done", "It was stopped.", NOW)
        connection.execute(update(lifetimes).values(ended_at=NOW, end_reason="stopped"))
    office.handler.click(press(subject))
    assert (office.open, office.ephemerals, len(office.events)) == ([], [], 1)


def test_when_slack_does_not_say_who_it_is_they_are_told(office: SlackHandlers) -> None:
    """Nothing is stored, and the person is asked to press again."""
    subject = office.running()
    office.slack.trouble = SlackUnavailable("Slack does not answer.")
    office.handler.click(press(subject))
    office.handler.close()
    assert office.open == []
    assert office.ephemerals == [
        "Slack did not tell Costguard who you are in time, so nothing was done. Click the button again in a minute."
    ]


@pytest.mark.parametrize("person", [None, Person("U0ADA", "", "Ada")])
def test_who_has_no_address_may_nothing(office: SlackHandlers, person: Person | None) -> None:
    """A member or a bot whose address Slack does not tell owns nothing."""
    subject = office.running(owner="")
    office.slack.people = {} if person is None else {"U0ADA": person}
    for number, kind in enumerate(RequestKind):
        office.handler.click(press(subject, kind=kind, at=f"{number}.1"))
    office.handler.close()
    assert office.open == []
    assert len(office.ephemerals) == len(RequestKind)
    assert all(text.startswith("Slack does not share your e-mail address with Costguard") for text in office.ephemerals)


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (Membership.GUEST, "You are a guest in this Slack workspace"),
        (Membership.EXTERNAL, "You belong to another Slack workspace"),
        (Membership.UNCONFIRMED, "Your e-mail address is not confirmed in Slack"),
    ],
)
def test_only_members_may_press(office: SlackHandlers, standing: Membership, why: str) -> None:
    """A person who is no full member is refused in private, even with an admin's or the owner's address."""
    subject = office.running()
    for name in ("ada", "adam"):
        office.slack.people[user_id(name)] = replace(office.slack.people[user_id(name)], membership=standing)
        for number, kind in enumerate(RequestKind):
            office.handler.click(press(subject, name, kind, at=f"{number}.1"))
    office.handler.close()
    assert office.open == []
    assert len(office.ephemerals) == 2 * len(RequestKind)
    assert all(text.startswith(why) for text in office.ephemerals)
    with office.database.read() as connection:
        assert slack_accounts.by_user_id(connection, user_id("adam")) is None


def test_a_known_id_of_another_workspace_is_asked_about(office: SlackHandlers) -> None:
    """The memory of an id holds for the workspace that it was looked up in, and nowhere else."""
    office.know("ada")
    office.slack.people["U0ADA"] = replace(office.slack.people["U0ADA"], membership=Membership.EXTERNAL)
    office.handler.click(replace(press(office.running()), team_id="T0OTHER"))
    office.handler.close()
    assert (office.open, office.slack.asked) == ([], ["U0ADA"])


def test_without_a_role_there_is_nothing_to_press(office: SlackHandlers) -> None:
    """The owner of a VM gets nothing either: pages and REST would refuse them, too."""
    subject = office.running(owner="nemo@lab.example")
    office.slack.people["U0NEMO"] = Person("U0NEMO", "nemo@elsewhere.example", "Nemo")
    claimed = office.running("another", owner="nemo@elsewhere.example")
    for number, target in enumerate((subject, claimed)):
        office.handler.click(press(target, "nemo", at=f"{number}.1"))
    office.handler.close()
    assert office.open == []
    assert (
        office.ephemerals
        == [
            "nemo@elsewhere.example has no role in Costguard, so nothing was done. "
            "Ask adam@lab.example for one: [access] in the settings."
        ]
        * 2
    )


def test_what_is_over_is_told_and_not_asked(office: SlackHandlers) -> None:
    """A button of a message whose subject has ended stores nothing, and says what became of it."""
    office.know("ada")
    ended = office.resting("a-stopped-one")
    restarted = office.running("a-running-one")
    gone = office.running("a-gone-one", gone_at=NOW)
    subjects = [
        Subject(SubjectKind.RUN, ended.instance_id, ended.lifetime_id),
        Subject(SubjectKind.REST, restarted.instance_id, restarted.lifetime_id),
        Subject(SubjectKind.RUN, restarted.instance_id, 99_999),
        gone,
        Subject(SubjectKind.RUN, 88_888, 1),
    ]
    for number, subject in enumerate(subjects):
        office.handler.click(press(subject, at=f"{number}.1"))
    assert office.open == []
    assert office.ephemerals == [
        "a-stopped-one was stopped on Thu 12 Nov 13:00 CET.",
        "a-running-one was started again since this message. Type /gpu to see it as it is now.",
        "This message about a-running-one is out of date. Type /gpu to see it as it is now.",
        "a-gone-one no longer exists, so there is nothing left to do.",
        "Costguard does not know this VM: the message is older than its database.",
    ]
    assert {event.event.kind for event in office.events} == {"RequestRefused"}


class Unwilling:
    """A database whose writes wait for `free`, and then fail if `trouble` is set."""

    def __init__(self, database: Database, trouble: Exception | None = None) -> None:
        self._database = database
        self._trouble = trouble
        self.free = threading.Event()

    def read(self) -> AbstractContextManager[Connection]:
        return self._database.read()

    def write(self, fence: Lease | None = None) -> AbstractContextManager[Connection]:
        assert self.free.wait(30)
        if self._trouble is not None:
            raise self._trouble
        return self._database.write(fence)


def test_a_busy_database_does_not_keep_slack_waiting(office: SlackHandlers) -> None:
    """The press is answered within the patience, and stored when the other writer is done."""
    subject = office.running()
    office.know("ada")
    busy = Unwilling(office.database)
    handler = office.made(busy, timedelta(seconds=0.05))  # type: ignore[arg-type]
    handler.click(press(subject))
    assert office.open == []
    busy.free.set()
    handler.close()
    assert [request.by for request in office.open] == [ADA]


def test_a_press_that_is_lost_is_told(office: SlackHandlers) -> None:
    """The loss is an error at once while Slack waits; afterwards an ephemeral message that needs no database."""
    subject = office.running()
    office.know("ada")
    locked = Unwilling(office.database, StoreError("It is locked."))
    handler = office.made(locked, timedelta(seconds=0.05))  # type: ignore[arg-type]
    handler.click(press(subject))
    locked.free.set()
    handler.close()
    ((channel, user, content),) = office.slack.ephemerals
    assert (channel, user) == ("C0GPU", "U0ADA")
    assert isinstance(content, EphemeralContent)
    assert "could not be saved" in content.text
    handler = office.made(locked)  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        handler.click(press(subject))
    handler.close()
    assert len(office.slack.ephemerals) == 1
