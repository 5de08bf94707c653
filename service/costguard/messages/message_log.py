"""Reads messages for people: all of them, or one VM's with its answers and stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from costguard.db.tables import instances, messages
from costguard.ledger import answers
from costguard.messages import outbox_rows
from costguard.messages.outbox_rows import StoredMessage
from costguard.messages.reminder import shown_sentence
from costguard.model.reminder import Claim, Keep, Subject, SubjectKind
from costguard.reminders import stop_rows
from costguard.reminders.stop_rows import StopRecord

_SUBJECTS = 40  # of so many lifetimes


@dataclass(frozen=True, slots=True)
class ReminderEntry:
    """A reminder to one recipient; `shows` is the outcome that it shows in Slack, "" while unanswered."""

    message: StoredMessage
    shows: str

    @property
    def at(self) -> datetime:
        return self.message.accepted_at or self.message.intended_at


@dataclass(frozen=True, slots=True)
class StopEntry:
    stop: StopRecord

    @property
    def at(self) -> datetime:
        return self.stop.intended_at


LogEntry = ReminderEntry | StopEntry | Keep | Claim


def of_vm(connection: Connection, instance_id: int, lifetimes: Sequence[int], limit: int) -> list[LogEntry]:
    """The latest first. `lifetimes` are the row ids of its runs, the latest first; only the latest are read."""
    latest = [*lifetimes[:_SUBJECTS], 0]  # 0: it may have storage without ever having run
    subjects = [Subject(kind, instance_id, lifetime) for lifetime in latest for kind in SubjectKind]
    log_entries: list[LogEntry] = [
        ReminderEntry(message, shown_sentence(message.shown))
        for message in outbox_rows.reminders_of(connection, subjects, limit)
    ]
    for kept in answers.keeps_of(connection, subjects).values():
        log_entries += kept
    log_entries += answers.claims_of(connection, [instance_id]).get(instance_id, ())
    for ordered in stop_rows.of_subjects(connection, subjects).values():
        log_entries += map(StopEntry, ordered)
    return sorted(log_entries, key=lambda entry: entry.at, reverse=True)[:limit]


def first_reminder_at(connection: Connection, subject: Subject, due_at: datetime) -> datetime | None:
    """Returns when Slack accepted the first of the reminders that have been due since then; None before that."""
    at = messages.c
    since = at.kind == "reminder", at.subject == str(subject), at.accepted_at >= due_at
    moment: datetime | None = connection.execute(select(func.min(at.accepted_at)).where(*since)).scalar_one()
    return moment


@dataclass(frozen=True, slots=True)
class MessageFilters:
    subject: str | None = None
    gce_id: str | None = None
    status: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message with its VM's name, which is "" for one that is about no VM."""

    id: int
    key: str
    kind: str
    status: str
    subject: str
    project: str
    gce_id: str
    name: str
    cycle: int
    stage: int
    target: str
    address: str
    intended_at: datetime
    try_after: datetime
    attempts: int
    accepted_at: datetime | None
    error: str


def messages_page(
    connection: Connection, filters: MessageFilters, before_id: int | None, limit: int
) -> list[MessageRow]:
    """Reads messages, the latest intended first; `before_id` goes on after a page."""
    own = [messages.c[name] for name in MessageRow.__slots__ if name in messages.c]
    vm = [func.coalesce(instances.c[name], "").label(name) for name in ("project", "gce_id", "name")]
    query = select(*own, *vm).join_from(messages, instances, instances.c.id == messages.c.instance_id, isouter=True)
    wanted = (
        (messages.c.subject, filters.subject),
        (instances.c.gce_id, filters.gce_id),
        (messages.c.status, filters.status),
        (messages.c.kind, filters.kind),
    )
    query = query.where(*(column == value for column, value in wanted if value is not None))
    if before_id is not None:
        query = query.where(messages.c.id < before_id)
    rows = connection.execute(query.order_by(messages.c.id.desc()).limit(limit))
    return [MessageRow(**row._mapping) for row in rows]
