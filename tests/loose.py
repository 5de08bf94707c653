"""Loose things for pages and examples: one of most kinds, one without a price, and a list that was not read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from costguard.ledger.owner import OwnerRules
from costguard.model.observation import LooseKind, LooseListing, LooseThing, UnreadList
from costguard.model.ports import Clock
from costguard.spend.loose.asking import LooseAsking, LooseSource
from costguard.spend.loose.things import LooseThings

_MADE = datetime(2026, 10, 2, 9, tzinfo=UTC)
_ZONE, _REGION = "zones/us-central1-a", "us-central1"
_DISK = LooseThing(
    LooseKind.DISK,
    "lab",
    _ZONE,
    "imagenet-old",
    "pd-balanced disk, 2,000 GiB",
    _MADE,
    unused_since=_MADE + timedelta(days=20),
    labels={"owner": "ada"},
    resource="disk:pd-balanced",
    region=_REGION,
    quantity=Fraction(2000),
)
_ADDRESS = LooseThing(
    LooseKind.ADDRESS,
    "lab",
    f"regions/{_REGION}",
    "tensorboard",
    "static external address",
    _MADE,
    resource="static-ip",
    region=_REGION,
)
_IMAGE = LooseThing(LooseKind.IMAGE, "lab", "global", "trainer-cuda-11", "image, 20.0 GiB", _MADE)
_QUEUED = LooseThing(
    LooseKind.QUEUED_RESOURCE,
    "lab",
    _ZONE,
    "sweep-16",
    "queued resource, suspended: holds the Spot quota of 16 v6e TPU chips",
    _MADE,
)
_UNREAD = UnreadList(
    "lab",
    LooseKind.RESERVATION,
    "Listing reservations of project lab: Compute Engine answered 403: Required permission is missing.",
    "compute.reservations.list",
)


def loose_things(clock: Clock) -> LooseThings:
    listing = LooseListing("lab", (_DISK, _ADDRESS, _IMAGE, _QUEUED), cluster_disks=3, unread=(_UNREAD,))
    return answered(clock, lambda _project: listing, ["lab"])


def answered(clock: Clock, source: LooseSource, projects: Sequence[str]) -> LooseThings:
    """Loose things of which each project has been asked once."""
    return asked_of(clock, source, projects, OwnerRules(domain="lab.example"))


def asked_of(clock: Clock, source: LooseSource, projects: Sequence[str], owners: OwnerRules) -> LooseThings:
    """Loose things of which each project has been asked once, with these owners."""
    asking = LooseAsking(source, lambda: projects, clock.now, start=lambda _name, run: run())
    asking.turn()
    return LooseThings(asking.memory, lambda: projects, clock.now, owners, asking.ask)
