"""Makes the payload that receivers get of every kind of event, by the code that makes it in the product."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache

from tests.golden.databases import migrated
from tests.golden.event_samples import costs, jobs, people, vms

from costguard.events import audit_log
from costguard.events.audit_log import StoredEvent
from costguard.model.event_kinds import EVENT_KINDS
from costguard.webhooks import signature

_DIGEST = re.compile(r"\b[0-9a-f]{32}\b")  # of a session's random id


def texts() -> Mapping[str, str]:
    """Returns the body that a webhook's receiver gets for each sample, by its file."""
    return {f"events/{name}.json": _text(stored) for name, stored in samples().items()}


@cache
def samples() -> Mapping[str, StoredEvent]:
    """Returns a stored event of each kind and set of details, with its fields as the database gives them.

    `RequestMade` is the first of its kind, `RequestMade-2` the next with other details. Raises AssertionError for a
    kind that no sample records.
    """
    shapes: dict[str, dict[frozenset[str], StoredEvent]] = {}
    for stored in _recorded():
        shapes.setdefault(stored.event.kind, {}).setdefault(frozenset(stored.event.data), stored)
    missing = sorted(EVENT_KINDS - shapes.keys())
    assert not missing, f"record an event of these kinds in tests/golden/event_samples: {', '.join(missing)}"
    return {
        kind if number == 1 else f"{kind}-{number}": stored
        for kind, details in shapes.items()
        for number, stored in enumerate(details.values(), 1)
    }


def _recorded() -> Iterator[StoredEvent]:
    for part in (vms, jobs, costs, people):
        with migrated() as database:
            part.record(database)
            with database.read() as connection:
                yield from sorted(audit_log.read(connection, limit=1000), key=lambda stored: stored.id)


def _text(stored: StoredEvent) -> str:
    body = json.loads(signature.body(stored.event, 1, stored.event.occurred_at))
    body["key"] = _DIGEST.sub("0" * 32, body["key"])
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"
