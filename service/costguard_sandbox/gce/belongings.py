"""Holds what a project has next to VMs and disks: addresses, snapshots, images, reservations, routers, subnetworks.

Reservations that Google made of a future one are belongings of their own, and the future reservation names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from costguard_sandbox.clock import pacific
from costguard_sandbox.gce.catalogue.regions import stable_id

_RESERVED = ("reservation", "futureReservation")
KINDS = ("address", "snapshot", "image", "router", "subnetwork", *_RESERVED)


@dataclass(frozen=True, slots=True)
class Belonging:
    """`place` is a region, a zone or "global"; `fields` are those of the API's resource, in its words."""

    kind: str
    project: str
    place: str
    name: str
    created_at: datetime
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scope(self) -> str:
        if self.place == "global":
            return "global"
        return f"{'zones' if self.kind in _RESERVED else 'regions'}/{self.place}"

    @property
    def path(self) -> str:
        """Returns `projects/P/zones/Z/reservations/NAME` and the like."""
        plural = "es" if self.kind == "address" else "s"
        return f"projects/{self.project}/{self.scope}/{self.kind}{plural}/{self.name}"

    def resource(self, links: str) -> dict[str, Any]:
        """The resource as its list shows it: `compute#address` and so on."""
        at = f"{links}/projects/{self.project}/{self.scope}"
        where = {} if self.place == "global" else {self.scope.partition("/")[0][:-1]: at}
        return {
            "kind": f"compute#{self.kind}",
            "id": stable_id(f"{self.project}/{self.scope}/{self.kind}/{self.name}"),
            "creationTimestamp": pacific(self.created_at),
            "name": self.name,
            "selfLink": f"{links}/{self.path}",
            **where,
            **self.fields,
        }
