"""Turns entries of the audit log into operations, and joins them with what is known of these, in any order. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from costguard.ledger.feed.entry import FeedEntry, Phase
from costguard.ledger.feed.kinds import FeedKind
from costguard.model.observation import OperationStatus, SeenOperation

_CODE = re.compile(r"[A-Z][A-Z0-9_]{3,}(?:,[A-Z][A-Z0-9_]{3,})*")  # ZONE_RESOURCE_POOL_EXHAUSTED
_STAGES = list(OperationStatus)


@dataclass(frozen=True, slots=True)
class Merged:
    """An operation as it is known now. `replaces` is the id under which it was stored before its number was heard."""

    operation: SeenOperation
    replaces: str | None = None
    is_news: bool = True


def operation_of(entry: FeedEntry) -> SeenOperation | None:
    """Returns the operation that an entry tells of; None where it tells of none, or not of which VM.

    A first entry has the API's own times and number. The end is when the last entry was written, until a list of
    operations tells it.
    """
    named = entry.operation_type, entry.project, entry.gce_id, entry.operation
    if entry.kind is FeedKind.NOISE or entry.at is None or not all(named):
        return None
    is_done = entry.phase is not Phase.FIRST
    return SeenOperation(
        project=entry.project or "",
        operation_id=entry.operation_id or entry.operation or "",
        kind=entry.operation_type or "",
        target_id=entry.gce_id or "",
        target_name=entry.name or "",
        zone=entry.zone or "",
        user="system" if entry.is_system else entry.principal or "",
        status=OperationStatus.DONE if is_done else OperationStatus.RUNNING,
        inserted_at=entry.inserted_at or entry.at,
        started_at=entry.started_at or entry.inserted_at or entry.at,
        ended_at=(entry.ended_at or entry.at) if is_done else None,
        error_code=_code(entry),
        error_message=entry.error_message,
        status_message=entry.message if entry.is_system else None,
        name=entry.operation or "",
        end_from_entry=is_done,
    )


def _code(entry: FeedEntry) -> str | None:
    """Returns Google's word for the error, where the entry says it; else the number of its status."""
    if entry.error_code is None:
        return None
    named = _CODE.search(entry.error_message or "")
    return named[0] if named else f"status {entry.error_code}"


def merged(stored: Sequence[SeenOperation], new: SeenOperation, is_first: bool) -> Merged:
    """Joins an operation that was heard with those that are known of its VM.

    What a list of operations showed stays: the feed adds operations, tells that one is done, and a first entry that
    comes after its last one gives the operation its number and times.
    """
    before = next((op for op in stored if _is_same(op, new)), None)
    if before is None:
        return Merged(new)
    after, replaces = before, None
    if is_first and before.operation_id == before.name:
        after = replace(
            before,
            operation_id=new.operation_id,
            user=new.user,
            target_name=new.target_name,
            zone=new.zone,
            inserted_at=new.inserted_at,
            started_at=new.started_at,
        )
        replaces = before.operation_id if new.operation_id != before.operation_id else None
    if _STAGES.index(new.status) > _STAGES.index(after.status):
        done = ("status", "ended_at", "error_code", "error_message", "status_message", "end_from_entry")
        after = replace(after, **{name: getattr(new, name) for name in done})
    return Merged(after, replaces, is_news=after != before)


def _is_same(stored: SeenOperation, new: SeenOperation) -> bool:
    return stored.operation_id in (new.operation_id, new.name) or (stored.name != "" and stored.name == new.name)
