"""Stand-ins for the engine's ports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from costguard.model.instance import InstanceKey
from costguard.model.observation import Observation, Presence


class FakeCloud:
    """Gives each project's observation as it was put in; VMs in `gone` answer 404 when asked for."""

    def __init__(self, observations: Mapping[str, Observation] | None = None) -> None:
        self.observations = dict(observations or {})
        self.gone: set[str] = set()
        self.unreachable: set[str] = set()
        self.asked: list[str] = []
        self.since: dict[str, datetime | None] = {}

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        self.since[project] = operations_since
        return self.observations[project]

    def presence(self, key: InstanceKey, zone: str, name: str) -> Presence:
        self.asked.append(key.gce_id)
        if key.gce_id in self.unreachable:
            return Presence.NOT_KNOWN
        return Presence.GONE if key.gce_id in self.gone else Presence.THERE


class HandClock:
    """Time that moves only when told."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def advance(self, span: timedelta) -> None:
        self.moment += span
