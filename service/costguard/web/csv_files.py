"""CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence

from costguard.events.audit_log import StoredEvent
from costguard.model.unseen import shown

EVENT_COLUMNS = ("id", "occurred_at", "recorded_at", "kind", "who", "project", "gce_id", "name", "job", "text", "data")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def safe(cell: str) -> str:
    """A text that spreadsheets would run as a formula gets an apostrophe in front, which they do not show.

    Controls become their numbers: such a file is looked at in terminals, too.
    """
    text = f"'{cell}" if cell.startswith(_FORMULA) else cell
    return shown(text)


def lines(rows: Iterable[Sequence[object]]) -> str:
    """Rows as lines of CSV; texts are made safe, numbers are left as they are."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerows([safe(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()


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
