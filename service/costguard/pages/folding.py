"""One stop as one line: the steps that led to it are folded under its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from costguard.events.facts import StoredFact
from costguard.model.instance import InstanceKey

_OUTCOMES = frozenset({"LifetimeEnded", "InstanceStopFailed", "InstanceStopNotNeeded", "RequestRefused"})
_STEPS = frozenset({"InstanceStopOrdered", "RequestMade"})
_LONGEST = timedelta(hours=1)  # between the first step and the outcome: a stop takes minutes, and a request a pass


@dataclass(slots=True)
class Folded:
    """A fact with the steps before it, the latest first."""

    stored: StoredFact
    steps: list[StoredFact] = field(default_factory=list)

    @property
    def id(self) -> int:
        return self.stored.id


def _is_step(stored: StoredFact) -> bool:
    fact = stored.fact
    return fact.kind in _STEPS and (fact.kind != "RequestMade" or fact.data.get("asked") == "stop")


def folded(facts: Sequence[StoredFact]) -> list[Folded]:
    """`facts` are the latest first. A step goes under the next outcome, or step, of the same VM."""
    found: list[Folded] = []
    open_stops: dict[InstanceKey, Folded] = {}
    for stored in facts:
        fact = stored.fact
        key = InstanceKey(fact.project, fact.gce_id)
        before = open_stops.get(key)
        is_near = before is not None and before.stored.fact.occurred_at - fact.occurred_at <= _LONGEST
        if before is not None and is_near and _is_step(stored):
            before.steps.append(stored)
            if fact.kind == "RequestMade":  # it began there: an older step is another stop's
                del open_stops[key]
            continue
        line = Folded(stored)
        found.append(line)
        open_stops.pop(key, None)
        if fact.gce_id and (fact.kind in _OUTCOMES or fact.kind == "InstanceStopOrdered"):
            open_stops[key] = line
    return found
