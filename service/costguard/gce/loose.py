"""Lists what bills in a project and nothing uses: disks, addresses, snapshots, images, reservations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer, CloudError
from costguard.gce.disks import disk_details
from costguard.gce.fields import UNREADABLE, labels, last_part, moment, moment_or_none, number, short, word
from costguard.gce.pages import AggregatedList, list_of, pages_of
from costguard.gce.reservations import (
    RESERVATIONS,
    ShapeOf,
    not_understood,
    permission_of,
    planned_reservations,
    region_of,
    reservation_of,
    unread_parts,
)
from costguard.gce.session import Deadline, Http
from costguard.keepers.volumes import may_be_a_volume
from costguard.model.observation import LooseKind, LooseListing, LooseThing, UnreadList

_GIB = 2**30
_MOST_BYTES = 2**63 - 1
_DISKS = AggregatedList(
    "disks",
    "compute#diskAggregatedList",
    "name,type,sizeGb,creationTimestamp,lastDetachTimestamp,users,labels,description",
)
_ADDRESSES = AggregatedList(
    "addresses",
    "compute#addressAggregatedList",
    "name,status,addressType,ipVersion,creationTimestamp,labels",
)
_SNAPSHOT_FIELDS = "name,creationTimestamp,storageBytes,snapshotType,sourceDisk,autoCreated,storageLocations,labels"
_IMAGE_FIELDS = "name,creationTimestamp,archiveSizeBytes,family,storageLocations,labels"

_OF_COMPUTE = (LooseKind.DISK, LooseKind.ADDRESS, LooseKind.SNAPSHOT, LooseKind.IMAGE, LooseKind.RESERVATION)

_Made = LooseThing | None


def list_loose(
    http: Http, project: str, deadline: Deadline, shape_of: ShapeOf, kinds: Sequence[LooseKind] = _OF_COMPUTE
) -> LooseListing:
    """Never raises a CloudError: a list that could not be read is in `unread`, with the permission that it takes."""
    things: list[LooseThing] = []
    unread: list[UnreadList] = []
    cluster_disks = 0
    plans, calendar = planned_reservations(http, project, deadline, shape_of, unread)
    for kind in kinds:
        problems: list[str] = []
        try:
            for scope, raw in _members(http, project, deadline, kind, unread):
                try:
                    if kind is LooseKind.DISK and _may_be_a_clusters(raw) and not raw.get("users"):
                        cluster_disks += 1
                    elif (thing := _thing(kind, project, scope, raw, shape_of, calendar)) is not None:
                        things.append(thing)
                except UNREADABLE as error:
                    problems.append(repr(error))
        except CloudError as error:
            unread.append(UnreadList(project, kind, str(error), permission_of(kind)))
        except UNREADABLE as error:
            problems.append(repr(error))
        unread += not_understood(project, kind, kind.collection, problems)
    return LooseListing(project, tuple(things), cluster_disks, tuple(unread), tuple(plans))


def _members(
    http: Http, project: str, deadline: Deadline, kind: LooseKind, unread: list[UnreadList]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if kind in (LooseKind.SNAPSHOT, LooseKind.IMAGE):
        fields = _SNAPSHOT_FIELDS if kind is LooseKind.SNAPSHOT else _IMAGE_FIELDS
        yield from (("global", raw) for raw in _plain(http, project, deadline, kind.collection, fields))
        return
    of_kind = {LooseKind.DISK: _DISKS, LooseKind.ADDRESS: _ADDRESSES, LooseKind.RESERVATION: RESERVATIONS}[kind]
    for page in of_kind.pages(http, project, deadline):
        unread += unread_parts(page, project, kind)
        for scope, members in page.holdings:
            yield from ((scope, raw) for raw in members)


def _plain(http: Http, project: str, deadline: Deadline, collection: str, fields: str) -> Iterator[Mapping[str, Any]]:
    """Yields the members of a list of the whole project. Raises CloudError."""
    what = f"Listing {collection}"
    params = {"maxResults": "500", "prettyPrint": "false", "fields": f"kind,nextPageToken,items({fields})"}
    path = f"/compute/v1/projects/{quote(project, safe=':')}/global/{collection}"
    for answer in pages_of(http, path, params, project=project, what=what, deadline=deadline):
        if answer.get("kind") != f"compute#{collection[:-1]}List":
            raise BadAnswer(f"{what} of project {project}: the answer calls itself {short(answer.get('kind'))}.")
        yield from list_of(answer.get("items"))


def _may_be_a_clusters(raw: Mapping[str, Any]) -> bool:
    return may_be_a_volume(str(raw.get("name") or ""), labels(raw.get("labels")), str(raw.get("description") or ""))


def _thing(
    kind: LooseKind,
    project: str,
    scope: str,
    raw: Mapping[str, Any],
    shape_of: ShapeOf,
    calendar: Collection[tuple[str, str]],
) -> _Made:
    """The thing; None where something uses it, or it costs nothing. Raises what a garbled answer raises."""
    match kind:
        case LooseKind.DISK:
            return _disk(project, scope, raw)
        case LooseKind.ADDRESS:
            return _address(project, scope, raw)
        case LooseKind.RESERVATION:
            return reservation_of(project, scope, raw, shape_of, calendar)
        case _:
            return _stored(kind, project, raw)


def _disk(project: str, scope: str, raw: Mapping[str, Any]) -> _Made:
    if raw.get("users"):
        return None
    details = disk_details(raw)
    is_regional = scope.startswith("regions/")
    return LooseThing(
        kind=LooseKind.DISK,
        project=project,
        scope=scope,
        name=word(raw["name"]),
        what=f"{'regional ' if is_regional else ''}{details.disk_type} disk, {details.size_gib:,} GiB",
        created_at=details.created_at,
        # One that was never attached is unused since it was made.
        unused_since=moment_or_none(raw.get("lastDetachTimestamp")) or details.created_at,
        labels=labels(raw.get("labels")),
        resource=None if is_regional else f"disk:{details.disk_type}",
        region=region_of(scope),
        quantity=Fraction(details.size_gib),
    )


def _address(project: str, scope: str, raw: Mapping[str, Any]) -> _Made:
    """Google charges for external IPv4 addresses alone."""
    is_free = raw.get("addressType", "EXTERNAL") != "EXTERNAL" or raw.get("ipVersion", "IPV4") != "IPV4"
    if word(raw["status"]) != "RESERVED" or is_free:
        return None
    return LooseThing(
        kind=LooseKind.ADDRESS,
        project=project,
        scope=scope,
        name=word(raw["name"]),
        what=f"{'global' if scope == 'global' else 'static'} external address",
        created_at=moment(raw["creationTimestamp"]),
        labels=labels(raw.get("labels")),
        resource="static-ip",
        region=region_of(scope),
    )


def _stored(kind: LooseKind, project: str, raw: Mapping[str, Any]) -> LooseThing:
    """Reads a snapshot or an image. Of archived snapshots no price is known."""
    held = number(raw.get("storageBytes" if kind is LooseKind.SNAPSHOT else "archiveSizeBytes") or 0, _MOST_BYTES)
    is_archive = raw.get("snapshotType") == "ARCHIVE"
    source = f" of {last_part(raw['sourceDisk'])}" if raw.get("sourceDisk") else ""
    by = ", made by a schedule" if raw.get("autoCreated") else ""
    places: list[Any] = raw.get("storageLocations") or []
    return LooseThing(
        kind=kind,
        project=project,
        scope="global",
        name=word(raw["name"]),
        what=f"{'archived ' if is_archive else ''}{kind.value}{source}, {_gib(held)} GiB{by}",
        created_at=moment(raw["creationTimestamp"]),
        labels=labels(raw.get("labels")),
        resource=None if is_archive or not held or len(places) != 1 else kind.value,
        region=word(places[0]) if len(places) == 1 else "",
        quantity=Fraction(held, _GIB),
    )


def _gib(held: int) -> str:
    tenths = (held * 10 + _GIB // 2) // _GIB
    return f"{tenths // 10:,}.{tenths % 10}" if held else "?"
