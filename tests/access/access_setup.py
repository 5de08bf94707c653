"""The handler of clicks and commands over a real database, with a Slack that knows people."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection
from tests.api import rows
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.slack.samples import CARD

from costguard.access.rules import Access, Rules
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.events.audit_log import StoredEvent
from costguard.messages import outbox_rows
from costguard.messages.clicks import InteractionHandler
from costguard.model.delivery.interaction import ButtonClick, SlashCommand
from costguard.model.delivery.message import Button, Content, Posted, VmCard
from costguard.model.delivery.person import AccountLookup, Person
from costguard.model.reminder import Request, RequestKind, Subject, SubjectKind, Team
from costguard.reminders import request_rows, slack_accounts

ADA = "ada@lab.example"
RULES = Rules(
    presets={},
    teams=(Team("vision", frozenset({ADA, "mel@lab.example", "olaf@lab.example"}), frozenset({"tess@lab.example"})),),
    access=Access(
        viewers=frozenset({"@lab.example"}),
        operators=frozenset({"olga@lab.example", "olaf@lab.example"}),
        admins=frozenset({"adam@lab.example"}),
    ),
)
NAMES = ("ada", "mel", "tess", "olaf", "olga", "adam", "vic")


class FakeSlack:
    """Knows people by id; `trouble` is raised instead. Only what the interaction handler may ask of Slack is there."""

    def __init__(self) -> None:
        self.people = {
            user_id(name): Person(user_id(name), f"{name}@lab.example", name.title(), "Europe/Madrid") for name in NAMES
        }
        self.trouble: Exception | None = None
        self.slow: threading.Event | None = None
        self.asked: list[str] = []
        self.ephemerals: list[tuple[str, str, Content]] = []

    def person_by_id(self, user_id: str) -> Person | None:
        self.asked.append(user_id)
        if self.slow is not None:
            assert self.slow.wait(30)
        if self.trouble is not None:
            raise self.trouble
        return self.people.get(user_id)

    def post_ephemeral(self, channel: str, user_id: str, content: Content, thread_ts: str = "") -> None:
        self.ephemerals.append((channel, user_id, content))

    def post(self, channel: str, content: Content, key: str, thread_ts: str = "") -> Posted:
        raise AssertionError("the interaction handler posts nothing by itself")

    def update(self, at: Posted, content: Content, key: str) -> None:
        raise AssertionError("the interaction handler edits nothing by itself")

    def find(self, channel: str, key: str, since: datetime, thread_ts: str = "") -> Posted | None:
        raise AssertionError("the interaction handler looks for nothing")

    def person_of(self, address: str) -> Person | None:
        raise AssertionError("the interaction handler knows people by their id")

    def open_direct(self, user_id: str) -> str:
        raise AssertionError("the interaction handler opens nothing")


def user_id(name: str) -> str:
    return f"U0{name.upper()}"


class SlackHandlers:
    """The handler of clicks and commands over a database, with everybody known unless `strangers`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.slack = FakeSlack()
        self.clock = HandClock(NOW)
        self.woken = 0
        self.listed: list[Subject] = []
        self.handler = self.made(database)

    def made(self, database: Database, patience: timedelta = timedelta(seconds=10)) -> InteractionHandler:
        return InteractionHandler(database, self.clock, RULES, self.slack, self.cards, self.wake, patience)

    def wake(self) -> None:
        self.woken += 1

    def cards(
        self, connection: Connection, subjects: Sequence[Subject], now: datetime
    ) -> list[tuple[VmCard, tuple[Button, ...], str]]:
        self.listed += subjects
        return [(replace(CARD, subject=subject), (Button(RequestKind.STOP, "Stop now"),), "") for subject in subjects]

    def know(self, *names: str) -> None:
        with self.database.write() as connection:
            for name in names:
                person = self.slack.people[user_id(name)]
                slack_accounts.save(connection, AccountLookup(person.address, person, NOW))

    def running(self, name: str = "trainer-7", **given: object) -> Subject:
        with self.database.write() as connection:
            instance = rows.instance(connection, name, **given)
            started_at = NOW - timedelta(hours=9)
            return Subject(SubjectKind.RUN, instance, rows.lifetime(connection, instance, started_at))

    def resting(self, name: str = "rested", **given: object) -> Subject:
        with self.database.write() as connection:
            instance = rows.instance(connection, name, status="stopped", **given)
            life = rows.lifetime(
                connection, instance, NOW - timedelta(days=9), ended_at=NOW - timedelta(days=8), end_reason="stopped"
            )
            return Subject(SubjectKind.REST, instance, life)

    @property
    def open(self) -> list[Request]:
        with self.database.read() as connection:
            return [request for _, request in request_rows.open_requests(connection)]

    @property
    def ephemerals(self) -> list[str]:
        with self.database.read() as connection:
            waiting = outbox_rows.waiting(connection, NOW + timedelta(days=99), 100)
        assert all(reply.kind == "ephemeral" for reply in waiting)
        return [str(reply.data["text"]) for reply in waiting]

    @property
    def events(self) -> list[StoredEvent]:
        with self.database.read() as connection:
            return audit_log.read(connection)


def press(
    subject: Subject, by: str = "ada", kind: RequestKind = RequestKind.STOP, at: str = "1.1", **given: object
) -> ButtonClick:
    values: dict[str, object] = {
        "key": f"slack/T0/C0GPU/1.0/{at}/{user_id(by)}",
        "user_id": user_id(by),
        "channel": "C0GPU",
        "message_ts": "1.0",
        "thread_ts": "",
        "kind": kind,
        "subject": subject,
        **given,
    }
    return ButtonClick(**values)  # type: ignore[arg-type]


def command(text: str = "", by: str = "ada") -> SlashCommand:
    return SlashCommand(f"slack/T0/1.1/{user_id(by)}", user_id(by), "C0GPU", text)
