"""An outbox over a real database and a Slack in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select
from tests.api import rows
from tests.api.rows import NOW
from tests.crashing import CrashPoint
from tests.fakes import FakeNotifier, HandClock

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.messages.outbox import Composed, Outbox, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.messages.slack_health import OutboxTrouble, trouble_of
from costguard.model.delivery.message import Content, EphemeralContent, Posted
from costguard.model.delivery.person import Person
from costguard.model.reminder import Subject, SubjectKind, Target
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage

ADA = Person("U0ADA", "ada@lab.example", "Ada", "Europe/Madrid")
MOMENT = timedelta(milliseconds=100)


class CrashingNotifier(FakeNotifier):
    """May crash before a message is posted, and right after it."""

    fuse = CrashPoint()

    def post(self, channel: str, content: Content, key: str, thread_ts: str = "") -> Posted:
        self.fuse.step()
        posted = super().post(channel, content, key, thread_ts)
        self.fuse.step()
        return posted


class Place:
    """`composed` says what a message says by now; unless told, its own key."""

    def __init__(self, database: Database, notifier: FakeNotifier | None = None) -> None:
        self.database = database
        self.clock = HandClock(NOW) if notifier is None else notifier._clock
        self.slack = notifier or FakeNotifier(self.clock, [ADA])
        self.seconds = 0.0
        self.state: dict[str, str] = {}
        self.composed: Callable[[StoredMessage], Composed | Withdrawn] = self._composed
        self.outbox = self.made()

    def made(self, database: Database | None = None, monotonic: Callable[[], float] | None = None) -> Outbox:
        """Another process' outbox on the same database."""

        def compose(connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
            return self.composed(message)

        def changed(_connection: Connection, live: object, _now: object) -> list[StoredMessage]:
            assert isinstance(live, list)
            return [item for item in live if self.state.get(item.key, "open") != item.shown]

        stopwatch = monotonic or (lambda: self.seconds)
        return Outbox(database or self.database, self.slack, compose, self.clock, "#fallback", changed, stopwatch)

    @property
    def trouble(self) -> OutboxTrouble:
        """Returns what keeps people from being notified, as a server shows it."""
        return trouble_of(self.database, *self.outbox.refusals)

    def intend(self, key: str, address: str = "#ops", **given: object) -> None:
        new = NewMessage(key, **{"kind": "notification", "address": address, **given})  # type: ignore[arg-type]
        with self.database.write() as connection:
            message_rows.intend(connection, new, self.clock.now())

    def subject(self, name: str = "trainer-7") -> Subject:
        with self.database.write() as connection:
            instance = rows.instance(connection, name)
            return Subject(SubjectKind.RUN, instance, rows.lifetime(connection, instance, NOW))

    def remind(self, subject: Subject, stage: int, address: str = "#ops", target: Target = Target.OWNER) -> str:
        key = f"reminder/{subject}/0/{stage}/{target.value}"
        given = {"kind": "reminder", "subject": subject, "instance_id": subject.instance_id, "data": {"reason": "late"}}
        self.intend(key, address, stage=stage, target=target, **given)
        return key

    def run(self, span: timedelta, outbox: Outbox | None = None, most: int = 20_000) -> timedelta:
        """Delivers whenever there is something to do, for meanwhile at most; how long that took."""
        outbox, began = outbox or self.outbox, self.clock.now()
        for _ in range(most):
            wait = outbox.deliver()
            if wait is None:
                return self.clock.now() - began
            self.clock.advance(max(wait, MOMENT))
            if self.clock.now() - began > span:
                return self.clock.now() - began
        raise AssertionError("it is asked for without an end")

    def stored(self, key: str) -> Row[Any]:
        with self.database.read() as connection:
            return connection.execute(select(tables.messages).where(tables.messages.c.key == key)).one()

    def events(self, kind: str) -> list[str]:
        with self.database.read() as connection:
            return [event.event.text for event in audit_log.read(connection, kind=kind)]

    def _composed(self, message: StoredMessage) -> Composed | Withdrawn:
        shown = self.state.get(message.key, "open")
        return Composed(EphemeralContent(f"{message.key} {shown}"), shown, shown == "ended")
