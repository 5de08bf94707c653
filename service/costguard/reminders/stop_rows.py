"""Stops: intended, called, settled, or recorded in shadow mode; their keys and sentences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Connection, Row, Select, insert, select, update

from costguard.db.bulk import among, chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers, remembers_each
from costguard.db.tables import stops
from costguard.db.types import storable
from costguard.ledger.narrate import after_text, ended_text
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.event import Event, new_event
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.moments import moment_text
from costguard.model.money import Money, Priced, priced_text
from costguard.model.record import KnownInstance
from costguard.model.reminder import Subject

_OURS = UUID("6f3f0f0a-5f0e-4e8a-9a53-0c6f1f1f7a11")


def key_of(action: StopInstance, prefix: str = "stop") -> str:
    """A person's request, or a rule in one cycle of reminding, stops a run once."""
    if action.request is not None:
        return f"{prefix}/{action.subject}/{action.request.id}"
    parts = action.reminder.split("/")
    return f"{prefix}/{action.subject}/{f'c{parts[2]}' if len(parts) > 2 else action.rule}"


def uuid_of(key: str, action: StopInstance, now: datetime) -> str:
    """Returns the request id of this very intent: row ids recur in another database, and keys once an older one was
    restored.
    """
    parts = (key, action.key.project, action.key.gce_id, action.started_at.isoformat(), now.isoformat())
    return str(uuid5(_OURS, "|".join(parts)))


def ordered(vm: KnownInstance, key: str, action: StopInstance, now: datetime) -> Event:
    by = action.request.by if action.request is not None else ""
    text = f"{vm.record.name} is to be stopped ({action.rule}): {action.reason.rstrip('.')}."
    return event(vm, "InstanceStopOrdered", key, text, now, evidence_of(action), by)


def shadowed(vm: KnownInstance, key: str, action: StopInstance, now: datetime) -> Event:
    text = f"{vm.record.name} would be stopped ({action.rule}): {action.reason.rstrip('.')}."
    return event(vm, "InstanceWouldBeStopped", key, text, now, evidence_of(action))


def event(
    vm: KnownInstance, kind: str, key: str, text: str, now: datetime, data: Mapping[str, object], actor: str = ""
) -> Event:
    """`key` is that of the stop."""
    named = {"zone": vm.record.zone, **data}
    return new_event(kind, now, text, key, vm=vm.record.key, name=vm.record.name, actor=actor, data=named)


def evidence_of(action: StopInstance) -> dict[str, object]:
    """All that the decision rested on."""
    return {
        "subject": str(action.subject),
        "rule": action.rule,
        "reminder": action.reminder,
        "request": action.request.key if action.request is not None else "",
        "due_at": action.due_at.isoformat() if action.due_at is not None else None,
        "evidence": dict(action.evidence),
    }


def done(vm: KnownInstance, life: Lifetime, cost: Priced) -> str:
    """`Stopped at 14:02 UTC on 2 Nov after 12 h; that run cost $41.20.`"""
    assert life.ended_at is not None  # it is over
    word = "Suspended" if life.end_reason is EndReason.SUSPENDED else "Stopped"
    amount = priced_text(cost, nothing="an amount that is not known")
    return f"{word} {vm.record.name} on {moment_text(life.ended_at)} {after_text(life)}; that run cost {amount}."


def ended_otherwise(vm: KnownInstance, life: Lifetime) -> str:
    assert life.ended_at is not None  # it is over
    return f"{vm.record.name} {ended_text(life.end_reason or EndReason.UNKNOWN)} on {moment_text(life.ended_at)}."


OPEN = (StopOutcome.INTENDED, StopOutcome.ASKED, StopOutcome.UNKNOWN)


@dataclass(frozen=True, slots=True)
class NewStop:
    """`rate` is what the VM costs an hour; None where that is not known whole."""

    key: str
    subject: Subject
    rule: str
    reason: str
    request_uuid: str
    outcome: StopOutcome
    intended_at: datetime
    evidence: Mapping[str, object] = field(default_factory=dict)
    reminder: str = ""
    request_id: int | None = None
    rate: Money | None = None


@dataclass(frozen=True, slots=True)
class StopRecord:
    """A stored one. `tries` counts what went wrong so far."""

    id: int
    key: str
    subject: Subject
    rule: str
    reason: str
    evidence: Mapping[str, Any]
    reminder: str
    request_id: int | None
    request_uuid: str
    outcome: StopOutcome
    operation: str
    intended_at: datetime
    settled_at: datetime | None
    tries: int
    try_after: datetime
    error: str
    rate: Money | None


def add(connection: Connection, new: NewStop) -> int | None:
    """Adds a stop, and returns its id. None: there is a stop with this key already."""
    stored = connection.scalar(select(stops.c.id).where(stops.c.key == new.key))
    if stored is not None:
        return None
    row = {
        "key": storable(new.key),
        "subject": str(new.subject),
        "instance_id": new.subject.instance_id,
        "rule": storable(new.rule),
        "reason": storable(new.reason),
        "evidence": storable(new.evidence),
        "reminder": storable(new.reminder),
        "request_id": new.request_id,
        "request_uuid": new.request_uuid,
        "outcome": new.outcome.value,
        "intended_at": new.intended_at,
        "settled_at": None if new.outcome in OPEN else new.intended_at,
        "try_after": new.intended_at,
        "rate_nanos": None if new.rate is None else new.rate.nanos,
    }
    added = connection.execute(insert(stops).values(row)).inserted_primary_key
    assert added is not None  # the table has one
    return int(added[0])


@remembers(stops)
def open_stops(connection: Connection) -> list[StopRecord]:
    """Lists the stops whose end is not known, the oldest first."""
    return [_stop(row) for row in connection.execute(_OPEN_STOPS)]


_OPEN_STOPS = (
    select(stops)
    .where(stops.c.outcome.in_([outcome.value for outcome in OPEN]), stops.c.settled_at.is_(None))
    .order_by(stops.c.id)
)


def advance(
    connection: Connection,
    stop_id: int,
    outcome: StopOutcome,
    operation: str = "",
    error: str = "",
    settled_at: datetime | None = None,
    try_after: datetime | None = None,
) -> None:
    """An error of what is not settled counts as a try."""
    values: dict[str, Any] = {
        "outcome": outcome.value,
        "operation": operation,
        "error": storable(error),
        "settled_at": settled_at,
    }
    if error and settled_at is None:
        values["tries"] = stops.c.tries + 1
    if try_after is not None:
        values["try_after"] = try_after
    connection.execute(update(stops).where(stops.c.id == stop_id).values(values))


@remembers_each(stops)
def of_subjects(connection: Connection, subjects: Collection[Subject]) -> dict[Subject, tuple[StopRecord, ...]]:
    """The oldest first; subjects without any are left out."""
    by_subject: dict[Subject, list[StopRecord]] = {}
    for chunk in chunks(among(connection, stops.c.subject, {str(subject) for subject in subjects})):
        for row in connection.execute(*_of_subjects(chunk)):
            by_subject.setdefault(Subject.parse(row.subject), []).append(_stop(row))
    return {subject: tuple(records) for subject, records in by_subject.items()}


@prepared
def _of_subjects(subjects: Sequence[str]) -> Select[Any]:
    return select(stops).where(stops.c.subject.in_(subjects)).order_by(stops.c.id)


def _stop(row: Row[Any]) -> StopRecord:
    return StopRecord(
        id=row.id,
        key=row.key,
        subject=Subject.parse(row.subject),
        rule=row.rule,
        reason=row.reason,
        evidence=row.evidence,
        reminder=row.reminder,
        request_id=row.request_id,
        request_uuid=row.request_uuid,
        outcome=StopOutcome(row.outcome),
        operation=row.operation,
        intended_at=row.intended_at,
        settled_at=row.settled_at,
        tries=row.tries,
        try_after=row.try_after,
        error=row.error,
        rate=None if row.rate_nanos is None else Money(row.rate_nanos),
    )
