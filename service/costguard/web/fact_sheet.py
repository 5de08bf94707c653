"""Facts as a file for spreadsheets."""

from __future__ import annotations

import json
from collections.abc import Iterable

from costguard.events.facts import StoredFact
from costguard.web import sheets

HEAD = ("id", "occurred_at", "recorded_at", "kind", "who", "project", "gce_id", "name", "job", "text", "data")


def head() -> str:
    return sheets.lines([HEAD])


def lines(found: Iterable[StoredFact]) -> str:
    return sheets.lines(map(cells, found))


def cells(stored: StoredFact) -> list[object]:
    """In the order of the head; `data` is JSON."""
    fact = stored.fact
    job, data = fact.data.get("job", ""), json.dumps(fact.data, ensure_ascii=False, sort_keys=True)
    times = [fact.occurred_at.isoformat(), stored.recorded_at.isoformat()]
    where = [fact.project, fact.gce_id, fact.name, job if isinstance(job, str) else ""]
    return [stored.id, *times, fact.kind, fact.actor, *where, fact.text, data]
