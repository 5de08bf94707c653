"""Lists all disks of a project, for what instances do not say about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import Any, NamedTuple

from costguard.errors import CloudError
from costguard.gce.fields import UNREADABLE, Garbled, moment, number, short, type_name
from costguard.gce.pages import AggregatedList
from costguard.gce.session import Deadline, Http

DISKS = AggregatedList("disks", "compute#diskAggregatedList", "id,name,type,sizeGb,creationTimestamp")


class DiskDetails(NamedTuple):
    """The details that only the list of disks has of a disk."""

    disk_type: str
    size_gib: int
    created_at: datetime
    gce_id: str | None  # None: the list does not say it


def disk_key(source: str) -> str:
    """`zones/us-central1-a/disks/d` of a disk's URL: the same wherever the URL begins."""
    at = source.rfind("zones/")
    return source[at if at >= 0 else max(source.rfind("regions/"), 0) :]


def disk_details(raw: Mapping[str, Any]) -> DiskDetails:
    """Raises Garbled."""
    try:
        return DiskDetails(
            type_name(raw["type"]), number(raw["sizeGb"]), moment(raw["creationTimestamp"]), _id_of(raw.get("id"))
        )
    except UNREADABLE as error:
        raise Garbled(f"disk {short(raw.get('name') if isinstance(raw, dict) else raw)}: {error!r}") from None


def _id_of(raw: Any) -> str | None:
    text = str(raw or "")
    return text if text.isdecimal() else None


@dataclass(slots=True)
class DiskListing:
    details: dict[str, DiskDetails] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    error: CloudError | None = None


def list_disks(http: Http, project: str, deadline: Deadline, before: dict[str, tuple[int, DiskDetails]]) -> DiskListing:
    """Never raises a CloudError. `before` holds the last listing's details by key, and is brought up to date.

    With each is the hash of what it was made of, good within this process.
    """
    listing = DiskListing()
    present: dict[str, tuple[int, DiskDetails]] = {}
    try:
        for page in DISKS.pages(http, project, deadline):
            listing.problems += [f"{scope or 'the list'}: {why}" for scope, why in page.unread.items()]
            for scope, members in page.holdings:
                for raw in members:
                    try:
                        listed = hash((raw["type"], raw["sizeGb"], raw["creationTimestamp"], raw.get("id")))
                        key = intern(f"{scope}/disks/{raw['name']}")
                        cached = before.get(key)
                        if cached is None or cached[0] != listed:
                            cached = (listed, disk_details(raw))
                    except UNREADABLE as error:
                        listing.problems.append(f"{scope}: {error}")
                        continue
                    present[key] = cached
                    listing.details[key] = cached[1]
        before.clear()
    except CloudError as error:
        listing.error = error
    before.update(present)
    return listing
