"""The audit log as CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable

from costguard.csv_files import lines
from costguard.events.audit_log import StoredEvent

EVENT_COLUMNS = ("id", "occurred_at", "recorded_at", "kind", "who", "project", "gce_id", "name", "job", "text", "data")


def event_head() -> str:
    return lines([EVENT_COLUMNS])


def event_lines(events: Iterable[StoredEvent]) -> str:
    return lines(map(event_cells, events))


def event_cells(stored: StoredEvent) -> list[object]:
    """Returns the cells in the order of the head; `data` is JSON."""
    event = stored.event
    job, data = event.data.get("job", ""), json.dumps(event.data, ensure_ascii=False, sort_keys=True)
    times = [event.occurred_at.isoformat(), stored.recorded_at.isoformat()]
    where = [event.project, event.gce_id, event.name, job if isinstance(job, str) else ""]
    return [stored.id, *times, event.kind, event.actor, *where, event.text, data]
