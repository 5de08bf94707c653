"""Rows of messages as the outbox takes them: waiting, possibly sent, and sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, Update, case, exists, func, select, text, update

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import WAITING, messages
from costguard.db.types import storable
from costguard.model.delivery.message import Posted
from costguard.model.reminder import Subject, Target


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A stored message. `shown` is the state that it shows in Slack; `is_live` that it may have to be edited yet."""

    id: int
    key: str
    kind: str
    address: str
    data: Mapping[str, Any]
    status: str  # "intended", "sending", "accepted", "withdrawn" or "failed"
    intended_at: datetime
    try_after: datetime
    subject: Subject | None = None
    instance_id: int | None = None
    cycle: int = 0
    stage: int = 0
    target: Target | None = None
    attempts: int = 0
    sending_at: datetime | None = None
    accepted_at: datetime | None = None
    channel: str = ""
    ts: str = ""
    thread_ts: str = ""
    shown: str = ""
    is_live: bool = False
    error: str = ""
    thread: str = ""

    @property
    def can_change(self) -> bool:
        """Says whether it is edited when what it shows is over. Of notifications only hints are, for their buttons."""
        return self.kind in ("reminder", "job") or "hint" in self.data

    @property
    def place(self) -> Posted:
        """Where it stands, once it was accepted."""
        return Posted(self.channel, self.ts)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The number of messages that wait to be sent, and the moment since when."""

    count: int
    since: datetime | None


_ABOUT_VMS = ("reminder", "ephemeral")  # kinds; the threads of others are no subjects


def waiting(connection: Connection, now: datetime, limit: int) -> list[StoredMessage]:
    """Lists the messages that may be sent or settled by now, the oldest first: of each address so many at most.

    A message waits for those before it to the same address about the same subject, whatever keeps them.
    """
    return [_message(row) for row in connection.execute(*_waiting(now, limit))]


@prepared
def _waiting(now: datetime, limit: int) -> Select[Any]:
    columns, before = messages.c, messages.alias("before")
    is_overtaking = exists().where(
        columns.subject != "",
        before.c.subject == columns.subject,
        before.c.address == columns.address,
        before.c.id < columns.id,
        before.c.status.in_(("intended", "sending")),
    )
    place = func.row_number().over(partition_by=columns.address, order_by=columns.id).label("place")
    due = select(messages, place).where(text(_WAITING_HERE), columns.try_after <= now, ~is_overtaking).subquery()
    return select(due).where(due.c.place <= limit).order_by(due.c.id)


_WAITING_HERE = WAITING.replace("status", "messages.status")


def next_tries(connection: Connection, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Returns when the first waiting message may be tried, and when the first of those that may not be tried yet.

    None: nothing waits.
    """
    first, later = connection.execute(*_next_tries(now)).one()
    return first, later


@prepared
def _next_tries(now: datetime) -> Select[Any]:
    moment = messages.c.try_after
    later = func.min(case((moment > now, moment)), type_=moment.type)
    return select(func.min(moment), later).where(text(WAITING))


def backlog(connection: Connection) -> Backlog:
    count, since = connection.execute(select(func.count(), func.min(messages.c.intended_at)).where(text(WAITING))).one()
    return Backlog(count, since)


def begin(
    connection: Connection, message_id: int, channel: str, thread_ts: str, now: datetime, doubt_after: datetime
) -> bool:
    """Claim it for one call. False: it is not waiting to be sent any more.

    When nothing is heard of it by `doubt_after`, it may have been sent, and Slack is asked.
    """
    statement = _begin(message_id, channel, thread_ts, now, doubt_after)
    return connection.execute(*statement, execution_options={"preserve_rowcount": True}).rowcount == 1


@prepared
def _begin(message_id: int, channel: str, thread_ts: str, now: datetime, doubt_after: datetime) -> Update:
    columns = messages.c
    values = {
        "status": "sending",
        "sending_at": now,
        "attempts": columns.attempts + 1,
        "channel": channel,
        "thread_ts": thread_ts,
        "try_after": doubt_after,
    }
    return update(messages).where(columns.id == message_id, columns.status == "intended").values(values)


def accept(
    connection: Connection, message_id: int, posted: Posted, shown: str, is_live: bool, accepted_at: datetime
) -> None:
    """Slack has it, there."""
    shown = storable(shown)
    connection.execute(*_accept(message_id, posted.channel, posted.ts, shown, is_live, accepted_at))


@prepared
def _accept(message_id: int, channel: str, ts: str, shown: str, is_live: bool, accepted_at: datetime) -> Update:
    values = {
        "status": "accepted",
        "accepted_at": accepted_at,
        "channel": channel,
        "ts": ts,
        "shown": shown,
        "is_live": is_live,
        "error": "",
    }
    return update(messages).where(messages.c.id == message_id).values(values)


def put_back(
    connection: Connection, message_id: int, try_after: datetime, error: str = "", attempts: int | None = None
) -> None:
    """It was certainly not sent, and is tried again. `attempts` undoes the count of a try that was not its fault."""
    values = {"status": "intended", "try_after": try_after, "error": storable(error)}
    _waits(connection, message_id, values if attempts is None else {**values, "attempts": attempts})


def postpone(connection: Connection, message_id: int, try_after: datetime, error: str) -> None:
    """It is looked at later; whether it may have been sent stays as it is."""
    _waits(connection, message_id, {"try_after": try_after, "error": storable(error)})


def doubt(connection: Connection, message_id: int, try_after: datetime, error: str) -> None:
    """It may have been sent: from then on Slack is asked."""
    _waits(connection, message_id, {"status": "sending", "try_after": try_after, "error": storable(error)})


def intended(connection: Connection) -> list[StoredMessage]:
    """Lists the messages that were never begun, as this database knows it, the oldest first."""
    query = select(messages).where(text(WAITING), messages.c.status == "intended").order_by(messages.c.id)
    return [_message(row) for row in connection.execute(query)]


def suspect(connection: Connection, message: StoredMessage, channel: str, thread_ts: str, now: datetime) -> None:
    """Another copy of this database may have sent it, at any time since it was intended: Slack is asked first."""
    values = {
        "status": "sending",
        "sending_at": message.intended_at,
        "channel": channel,
        "thread_ts": thread_ts,
        "try_after": now,
    }
    _waits(connection, message.id, values)


def fail(connection: Connection, message_id: int, error: str) -> None:
    """It can never be sent."""
    _waits(connection, message_id, {"status": "failed", "error": storable(error)})


def withdraw(connection: Connection, message_id: int, why: str) -> None:
    """It is not true any more; it certainly was not sent."""
    _waits(connection, message_id, {"status": "withdrawn", "error": storable(why)})


def live(connection: Connection) -> list[StoredMessage]:
    """Lists the messages in Slack that may have to be edited yet, the oldest first."""
    return [_message(row) for row in connection.execute(_LIVE)]


_LIVE = select(messages).where(text("is_live"), messages.c.status == "accepted").order_by(messages.c.id)


def show(connection: Connection, message_id: int, shown: str, is_live: bool) -> None:
    """Records the outcome that it shows now."""
    connection.execute(*_show(message_id, storable(shown), is_live))


@prepared
def _show(message_id: int, shown: str, is_live: bool) -> Update:
    return update(messages).where(messages.c.id == message_id).values(shown=shown, is_live=is_live)


def root_of(connection: Connection, thread: str, address: str, channel: str) -> StoredMessage | None:
    """The message that began this recipient's thread, if it stands in this channel.

    `channel` may still be a name: Slack tells its id only when a message is accepted.
    """
    row = connection.execute(*_root_of(thread, address, None if channel.startswith("#") else channel)).one_or_none()
    return None if row is None else _message(row)


@prepared
def _root_of(thread: str, address: str, channel: str | None) -> Select[Any]:
    columns = messages.c
    conditions = [
        columns.subject == thread,
        columns.address == address,
        columns.status == "accepted",
        columns.thread_ts == "",
    ]
    if channel is not None:
        conditions.append(columns.channel == channel)
    return select(messages).where(*conditions, columns.ts != "").order_by(columns.id.desc()).limit(1)


def lose(connection: Connection, message_id: int) -> None:
    """It is not in Slack any more: someone deleted it, or its channel."""
    connection.execute(update(messages).where(messages.c.id == message_id).values(ts="", is_live=False))


def reminders_of(connection: Connection, subjects: Collection[Subject], limit: int) -> list[StoredMessage]:
    """Lists the reminders of these subjects, whatever became of them: the latest intended first."""
    stored_messages: list[StoredMessage] = []
    for chunk in chunks(sorted({str(subject) for subject in subjects})):
        query = select(messages).where(messages.c.subject.in_(chunk), messages.c.kind == "reminder")
        stored_messages += [
            _message(row) for row in connection.execute(query.order_by(messages.c.id.desc()).limit(limit))
        ]
    return sorted(stored_messages, key=lambda message: message.id, reverse=True)[:limit]


def _waits(connection: Connection, message_id: int, values: Mapping[str, object]) -> None:
    """Changes only what was not accepted meanwhile."""
    connection.execute(update(messages).where(messages.c.id == message_id, text(WAITING)).values(values))


def _message(row: Row[Any]) -> StoredMessage:
    return StoredMessage(
        id=row.id,
        key=row.key,
        kind=row.kind,
        address=row.address,
        data=row.data,
        status=row.status,
        intended_at=row.intended_at,
        try_after=row.try_after,
        subject=Subject.parse(row.subject) if row.subject and row.kind in _ABOUT_VMS else None,
        instance_id=row.instance_id,
        cycle=row.cycle,
        stage=row.stage,
        target=Target(row.target) if row.target else None,
        attempts=row.attempts,
        sending_at=row.sending_at,
        accepted_at=row.accepted_at,
        channel=row.channel,
        ts=row.ts,
        thread_ts=row.thread_ts,
        shown=row.shown,
        is_live=bool(row.is_live),
        error=row.error,
        thread=row.subject,
    )
