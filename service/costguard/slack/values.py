"""What a button carries through Slack and back: what is asked, of which subject, and the due moment it showed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from costguard.model.reminder import Asked, Subject

LONGEST = 300  # characters: what `pack` writes is shorter, and Slack would take 2,000
_MOST_HOURS = 24 * 366


@dataclass(frozen=True, slots=True)
class Pressed:
    """`hours` None on a keep means until tomorrow morning."""

    subject: Subject
    asked: Asked
    hours: int | None = None
    due_at: datetime | None = None


def pack(subject: Subject, asked: Asked, hours: int | None = None, due_at: datetime | None = None) -> str:
    """`due_at` keeps its microseconds: a press is stale unless it equals the present one."""
    value: dict[str, str | int] = {"s": str(subject), "a": asked.value}
    if hours is not None:
        value["h"] = hours
    if due_at is not None:
        value["d"] = due_at.isoformat()
    return json.dumps(value, separators=(",", ":"))


def unpack(value: str) -> Pressed:
    """Raises ValueError for whatever `pack` did not write."""
    if len(value) > LONGEST:
        raise ValueError("the value is longer than any that was written here")
    found = json.loads(value)
    if not isinstance(found, dict):
        raise ValueError("the value is no object")
    hours, due = found.get("h"), found.get("d")
    if hours is not None and (type(hours) is not int or not 1 <= hours <= _MOST_HOURS):
        raise ValueError(f"{hours!r} is no number of hours")
    due_at = None if due is None else datetime.fromisoformat(str(due))
    if due_at is not None and due_at.tzinfo is None:
        raise ValueError("the due moment has no time zone")
    return Pressed(Subject.parse(str(found.get("s"))), Asked(str(found.get("a"))), hours, due_at)
