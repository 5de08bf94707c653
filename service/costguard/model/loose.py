"""Loose things: what bills in a project and nothing uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from costguard.model.instance import Shape


class LooseKind(StrEnum):
    DISK = "disk"
    ADDRESS = "address"
    SNAPSHOT = "snapshot"
    IMAGE = "image"
    RESERVATION = "reservation"


@dataclass(frozen=True, slots=True)
class LooseThing:
    """A thing that nothing uses, as its list showed it.

    `resource` is a billed resource, of which it is `quantity`, in `region`; None: none whose price is known. Of a
    reservation `shape` is a VM of it, `quantity` the VMs that nobody uses, and `used` those that are used.
    """

    kind: LooseKind
    project: str
    scope: str  # `zones/us-central1-a`, `regions/us-central1` or `global`
    name: str
    what: str  # in words: `pd-ssd disk, 100 GiB`
    created_at: datetime
    unused_since: datetime | None = None  # None: the list does not say
    labels: Mapping[str, str] = field(default_factory=dict)
    resource: str | None = None
    region: str = ""
    quantity: Fraction = Fraction(1)
    shape: Shape | None = None
    used: int = 0


@dataclass(frozen=True, slots=True)
class UnreadList:
    """A list that could not be read, or not whole: what is in it is unknown, never nothing."""

    project: str
    kind: LooseKind
    reason: str
    permission: str  # which it takes


@dataclass(frozen=True, slots=True)
class LooseListing:
    """The loose things of one project. `cluster_disks` are unattached disks that a cluster's volumes may need."""

    project: str
    things: tuple[LooseThing, ...] = ()
    cluster_disks: int = 0
    unread: tuple[UnreadList, ...] = ()
