"""Events: what happened, in the past tense, appended once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Event:
    """`key` is natural: recording the same happening twice appends one event."""

    key: str
    kind: str  # InstanceSeen, LifetimeStarted, LifetimeEnded, ZoneUnread, PriceRefused, ...
    occurred_at: datetime
    text: str  # one sentence for people
    project: str = ""
    gce_id: str = ""
    name: str = ""
    actor: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
