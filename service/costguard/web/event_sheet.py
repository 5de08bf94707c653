"""Events as a file for spreadsheets."""

from __future__ import annotations

import json
from collections.abc import Iterable

from costguard.events.facts import StoredFact
from costguard.web import sheets

HEAD = ("id", "occurred_at", "recorded_at", "kind", "who", "project", "gce_id", "name", "job", "text", "data")


def head() -> str:
    return sheets.lines([HEAD])


def lines(events: Iterable[StoredFact]) -> str:
    return sheets.lines(map(cells, events))


def cells(stored: StoredFact) -> list[object]:
    """In the order of the head; `data` is JSON."""
    event = stored.fact
    job, data = event.data.get("job", ""), json.dumps(event.data, ensure_ascii=False, sort_keys=True)
    times = [event.occurred_at.isoformat(), stored.recorded_at.isoformat()]
    where = [event.project, event.gce_id, event.name, job if isinstance(job, str) else ""]
    return [stored.id, *times, event.kind, event.actor, *where, event.text, data]
