"""Rows of messages as those who write them see them: intended, and sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from costguard.db.bulk import among, chunks
from costguard.db.prepared import prepared
from costguard.db.tables import messages
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.reminder import Sent, Subject, Target


@dataclass(frozen=True, slots=True)
class NewMessage:
    """`address` is a person's e-mail address, a channel's name with `#`, or an id of Slack's.

    Messages to one address in one `thread` are sent in order: the first is its root. A reminder's is its subject.
    """

    key: str
    kind: str  # "reminder", "digest", "report", "reservation", "notification", "job" or "ephemeral"
    address: str
    data: Mapping[str, object] = field(default_factory=dict)
    subject: Subject | None = None
    instance_id: int | None = None
    cycle: int = 0
    stage: int = 0
    target: Target | None = None
    thread: str = ""


def intend(connection: Connection, new: NewMessage, now: datetime) -> bool:
    """Intends a message, and says whether to send it now: False when it was sent, is about to be, or can never be.

    A message that was withdrawn because it was not true any more is intended again.
    """
    row = {
        "key": storable(new.key),
        "kind": new.kind,
        "subject": new.thread if new.subject is None else str(new.subject),
        "instance_id": new.instance_id,
        "cycle": new.cycle,
        "stage": new.stage,
        "target": "" if new.target is None else new.target.value,
        "address": storable(new.address),
        "data": storable(new.data),
        "status": "intended",
        "intended_at": now,
        "try_after": now,
    }
    if upsert(connection, messages, [row], ["key"], update_columns=[]):
        return True
    again = {"status": "intended", "error": "", "sending_at": None, **{name: row[name] for name in _RENEWED}}
    columns = messages.c
    done = connection.execute(
        update(messages).where(columns.key == row["key"], columns.status == "withdrawn").values(again),
        execution_options={"preserve_rowcount": True},
    )
    return done.rowcount == 1


def data_of(connection: Connection, keys: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Returns the data of those of these messages that were intended, whatever became of them."""
    return {row.key: row.data for some in chunks(keys) for row in connection.execute(*_data_of(some))}


@prepared
def _data_of(keys: list[str]) -> Select[Any]:
    return select(messages.c.key, messages.c.data).where(messages.c.key.in_(keys))


_RENEWED = ("address", "data", "intended_at", "try_after")


def sent_of(connection: Connection, subjects: Collection[Subject]) -> dict[Subject, tuple[Sent, ...]]:
    """Reminders that were meant and not withdrawn, the oldest first."""
    by_subject: dict[Subject, list[Sent]] = {}
    for chunk in chunks(among(connection, messages.c.subject, {str(subject) for subject in subjects})):
        for row in connection.execute(*_sent_of(chunk)):
            by_subject.setdefault(Subject.parse(row.subject), []).append(_sent(row))
    return {subject: tuple(reminders) for subject, reminders in by_subject.items()}


def _sent(row: Row[Any]) -> Sent:
    return Sent(row.key, row.cycle, row.stage, Target(row.target), row.accepted_at, row.status == "failed")


@prepared
def _sent_of(subjects: Sequence[str]) -> Select[Any]:
    columns = messages.c
    query = select(messages).where(columns.subject.in_(subjects), columns.kind == "reminder")
    return query.where(columns.status != "withdrawn").order_by(columns.id)


def sent_by_key(connection: Connection, beginning: str) -> list[tuple[Subject, Sent]]:
    """Reminders whose keys begin so, that were meant and not withdrawn, the oldest first."""
    columns = messages.c
    query = select(messages).where(columns.key.startswith(beginning, autoescape=True), columns.kind == "reminder")
    rows = connection.execute(query.where(columns.status != "withdrawn").order_by(columns.id))
    return [(Subject.parse(row.subject), _sent(row)) for row in rows]


def known(connection: Connection, keys: Collection[str]) -> set[str]:
    """Returns those of these messages that were intended, whatever became of them."""
    return {key for chunk in chunks(keys) for key in connection.scalars(*_known(chunk))}


@prepared
def _known(keys: list[str]) -> Select[Any]:
    return select(messages.c.key).where(messages.c.key.in_(keys))
