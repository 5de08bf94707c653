"""Reads what scenarios put next to their VMs: disks of no VM, addresses, snapshots, images, reservations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from costguard_sandbox.gce.belongings import KINDS, Belonging
from costguard_sandbox.gce.cloud import DEFAULT_USER
from costguard_sandbox.scenarios.keys import Keys
from costguard_sandbox.world import World

_DISK = "disk"


@dataclass(frozen=True, slots=True)
class ScenarioBelonging:
    """`fields` are those of the API's resource; of a disk, those of its insert."""

    kind: str
    project: str
    place: str
    name: str
    made_ago: timedelta
    fields: Mapping[str, Any]

    def make(self, world: World) -> None:
        if self.kind == _DISK:
            world.storage.insert(self.project, self.place, {"name": self.name, **self.fields}, DEFAULT_USER, "")
            return
        made_at = world.timeline.now
        world.belongings.append(Belonging(self.kind, self.project, self.place, self.name, made_at, self.fields))


def read_belonging(keys: Keys, projects: tuple[str, ...]) -> ScenarioBelonging:
    belonging = ScenarioBelonging(
        keys.choice("kind", (_DISK, *KINDS)),
        keys.choice("project", projects),
        keys.text("place", "global"),
        keys.text("name"),
        keys.duration("made", ago=True),
        keys.values("fields"),
    )
    keys.done()
    return belonging
