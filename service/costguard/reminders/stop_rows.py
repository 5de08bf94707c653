"""Stops that were begun, came to something, or would have been."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from costguard.db.bulk import chunks
from costguard.db.tables import stops
from costguard.db.types import storable
from costguard.ledger.accruing import among
from costguard.model.action import StopOutcome
from costguard.model.money import Money
from costguard.model.reminder import Subject

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
    """Its id. None: there is a stop with this key already."""
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


def open_stops(connection: Connection) -> list[StopRecord]:
    """Those whose end is not known, the oldest first."""
    words = [outcome.value for outcome in OPEN]
    query = select(stops).where(stops.c.outcome.in_(words), stops.c.settled_at.is_(None)).order_by(stops.c.id)
    return [_stop(row) for row in connection.execute(query)]


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


def of_subjects(connection: Connection, subjects: Collection[Subject]) -> dict[Subject, tuple[StopRecord, ...]]:
    """The oldest first; subjects without any are left out."""
    by_subject: dict[Subject, list[StopRecord]] = {}
    for chunk in chunks(among(connection, stops.c.subject, {str(subject) for subject in subjects})):
        for row in connection.execute(select(stops).where(stops.c.subject.in_(chunk)).order_by(stops.c.id)):
            by_subject.setdefault(Subject.parse(row.subject), []).append(_stop(row))
    return {subject: tuple(records) for subject, records in by_subject.items()}


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
