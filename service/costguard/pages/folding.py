"""Events grouped for display: the steps that led to a stop are folded under its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from costguard.events.audit_log import StoredEvent
from costguard.model.instance import InstanceKey

_OUTCOMES = frozenset({"LifetimeEnded", "InstanceStopFailed", "InstanceStopNotNeeded", "RequestRefused"})
_STEPS = frozenset({"InstanceStopOrdered", "RequestMade"})
_LONGEST = timedelta(hours=1)  # between the first step and the outcome: a stop takes minutes, and a request a pass


@dataclass(slots=True)
class Folded:
    """An event with the steps before it, the latest first."""

    stored: StoredEvent
    steps: list[StoredEvent] = field(default_factory=list)

    @property
    def id(self) -> int:
        return self.stored.id


def _is_step(stored: StoredEvent) -> bool:
    event = stored.event
    return event.kind in _STEPS and (event.kind != "RequestMade" or event.data.get("asked") == "stop")


def folded(events: Sequence[StoredEvent]) -> list[Folded]:
    """`events` are the latest first. A step goes under the next outcome, or step, of the same VM."""
    groups: list[Folded] = []
    open_stops: dict[InstanceKey, Folded] = {}
    for stored in events:
        event = stored.event
        key = InstanceKey(event.project, event.gce_id)
        before = open_stops.get(key)
        is_near = before is not None and before.stored.event.occurred_at - event.occurred_at <= _LONGEST
        if before is not None and is_near and _is_step(stored):
            before.steps.append(stored)
            if event.kind == "RequestMade":  # the stop began there: an older step belongs to another stop
                del open_stops[key]
            continue
        group = Folded(stored)
        groups.append(group)
        open_stops.pop(key, None)
        if event.gce_id and (event.kind in _OUTCOMES or event.kind == "InstanceStopOrdered"):
            open_stops[key] = group
    return groups
