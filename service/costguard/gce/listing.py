"""Lists all instances of a project with their disks, and converts only those that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from costguard.errors import CloudError
from costguard.gce.convert import Shapes, instance_from, with_disks
from costguard.gce.disks import DiskDetails, DiskListing
from costguard.gce.errors import first_of
from costguard.gce.fields import Garbled
from costguard.gce.machine_types import MachineShape
from costguard.gce.pages import AggregatedList, Page, digest_of, zone_of
from costguard.gce.session import Deadline, Http
from costguard.model.attempt import labelled_attempt
from costguard.model.instance import SeenInstance
from costguard.model.managed.origin import is_of_origin
from costguard.model.observation import UnchangedVm, Unread

_METADATA = "metadata(fingerprint,items(key,value))"


def _instances(metadata: str) -> AggregatedList:
    return AggregatedList(
        "instances",
        "compute#instanceAggregatedList",
        "id,name,status,creationTimestamp,lastStartTimestamp,lastStopTimestamp,lastSuspendedTimestamp,"
        f"machineType,labels,{metadata},disks(source,type,diskSizeGb,boot,autoDelete),"
        "networkInterfaces/accessConfigs/natIP,guestAccelerators(acceleratorType,acceleratorCount),"
        "scheduling(preemptible,provisioningModel,maxRunDuration,terminationTime,gracefulShutdown/enabled),"
        "resourceStatus(scheduling/terminationTimestamp,reservationConsumptionInfo/consumedReservation)",
    )


# A start-up script or a node's settings make metadata the most of an answer: 3 KB of 4, or 20 of 21. A mask cannot
# choose items by key, but "the fingerprint changes after every request to modify or update metadata" (compute v1,
# discovery document, Metadata), so that later looks ask for that alone.
_WITH_METADATA, _WITHOUT_METADATA = _instances(_METADATA), _instances("metadata/fingerprint")
_FEW_NEW, _NEW_SHARE = 20, 500  # VMs whose metadata is asked for one by one: a page lists 500

_HELD_PARSED = 20_000


@dataclass(frozen=True, slots=True)
class Remembered(UnchangedVm):
    """Holds what is kept of a VM: hashes of it, what the ledger asks of unchanged ones, and its disks.

    Of a hundred thousand VMs, all that a look gave would take some 200 MB.
    """

    digest: int | None  # of the JSON that it was made from, good within this process; None: it is to be read again
    disk_keys: tuple[str, ...]
    disk_details: tuple[DiskDetails | None, ...]
    metadata_fingerprint: str
    origin: Mapping[str, str]


def _remembered(
    seen: SeenInstance, digest: int, keys: tuple[str, ...], details: tuple[DiskDetails | None, ...], metadata: str
) -> Remembered:
    """Returns what later looks need of this VM. Each of them reads one again whose machine type is not known."""
    attempt = labelled_attempt(seen.labels, seen.name)
    return Remembered(
        gce_id=seen.key.gce_id,
        fingerprint=seen.fingerprint,
        zone=seen.zone,
        bills_machine=seen.status.bills_machine,
        may_have_gpu=seen.shape.gpu_count > 0 or not seen.shape.is_known,
        attempt=attempt if attempt is None or attempt == seen.name else "",
        digest=digest if seen.shape.is_known else None,
        disk_keys=keys,
        disk_details=details,
        metadata_fingerprint=intern(metadata),
        origin=seen.origin,
    )


def forget(before: dict[str, Remembered], gce_ids: Iterable[str]) -> None:
    """Have the next look convert these VMs, as if their JSON had changed."""
    for gce_id in gce_ids:
        if (remembered := before.get(gce_id)) is not None:
            before[gce_id] = replace(remembered, digest=None)


class KnownPage(NamedTuple):
    """A page of which all VMs were known and unchanged: the kind that it calls itself, and these VMs."""

    kind: str
    same: tuple[Remembered, ...]


class PageReader:
    """Reads the pages of one look. A page whose bytes are those of the last look, but for its token, is not parsed.

    Its VMs must be the very objects that are remembered: then all that was compared when they were found unchanged
    still holds.
    """

    def __init__(self, last: Mapping[int, KnownPage], before: Mapping[str, Remembered]) -> None:
        self._last, self._before = last, before
        self._digest = 0
        self.unchanged: KnownPage | None = None  # the page that was read last, where it is as it was
        self.pages: dict[int, KnownPage] = {}  # for the next look

    def loads(self, body: bytes) -> Any:
        self._digest, token = digest_of(body)
        unchanged = self._last.get(self._digest)
        if unchanged is None or any(self._before.get(one.gce_id) is not one for one in unchanged.same):
            self.unchanged = None
            return orjson.loads(body)
        self.unchanged = self.pages[self._digest] = unchanged
        return {"kind": unchanged.kind, "nextPageToken": token}

    def keep(self, page: Page, kind: str, same: Sequence[Remembered]) -> None:
        """Keeps the page that was parsed last for the next look, where all of its VMs are the same as before."""
        if not page.unread and len(same) == sum(len(members) for _, members in page.holdings):
            self.pages[self._digest] = KnownPage(kind, tuple(same))


_Waiting = tuple[str, int, Any]  # zone, digest, JSON as a value or as text


@dataclass(slots=True)
class InstanceListing:
    """The result of the instance pages. New or changed VMs wait as JSON until the disks are known."""

    same: list[Remembered] = field(default_factory=list)
    waiting: list[_Waiting] = field(default_factory=list)
    unread_metadata: list[_Waiting] = field(default_factory=list)  # as values; their metadata is still to be asked for
    unread_zones: dict[str, str] = field(default_factory=dict)
    garbled: list[tuple[str, str]] = field(default_factory=list)  # zone, what was wrong with a VM
    incomplete: str = ""  # why VMs of any zone may be missing
    error: CloudError | None = None
    pages: int = 0
    known_pages: dict[int, KnownPage] = field(default_factory=dict)  # by the hash of their bytes, for the next look


def list_instances(
    http: Http,
    project: str,
    deadline: Deadline,
    before: dict[str, Remembered],
    begun: Callable[[], None],
    known_pages: Mapping[int, KnownPage],
) -> InstanceListing:
    """Never raises a CloudError: what came before a failure is kept, the failure is in `error`.

    `begun` is called once the first page came. Where VMs are known from `before`, only metadata that is new is read.
    """
    if before:
        few = max(_FEW_NEW, len(before) // _NEW_SHARE)
        reader = PageReader(known_pages, before)
        listing = _listed(_WITHOUT_METADATA, http, project, deadline, before, begun, few, reader)
        if len(listing.unread_metadata) <= few and _metadata_read(http, project, deadline, listing):
            return listing
        begun = _nothing
    return _listed(_WITH_METADATA, http, project, deadline, before, begun, 0, None)


def _nothing() -> None: ...


def _listed(
    instances: AggregatedList,
    http: Http,
    project: str,
    deadline: Deadline,
    before: dict[str, Remembered],
    begun: Callable[[], None],
    few: int,
    reader: PageReader | None,
) -> InstanceListing:
    """Ends early once the metadata of more than a few VMs would have to be asked for.

    Pages with all metadata have no `reader`: the next look's have other bytes, and hashing 40 MB takes its time.
    """
    listing = InstanceListing(known_pages={} if reader is None else reader.pages)
    has_metadata = instances is _WITH_METADATA
    try:
        for page in instances.pages(http, project, deadline, orjson.loads if reader is None else reader.loads):
            listing.pages += 1
            if listing.pages == 1:
                begun()
            if reader is not None and reader.unchanged is not None:
                listing.same += reader.unchanged.same
                continue
            taken = len(listing.same)
            _take(page, listing, before, has_metadata)
            if reader is not None:
                reader.keep(page, instances.kind, listing.same[taken:])
            if len(listing.unread_metadata) > few:
                break
    except CloudError as error:
        listing.error = error
        listing.incomplete = str(error)
    return listing


def _metadata_read(http: Http, project: str, deadline: Deadline, listing: InstanceListing) -> bool:
    """Asks for the metadata of the VMs that lack it; False where one of them could not be read."""
    while listing.unread_metadata:
        zone, digest, raw = listing.unread_metadata.pop()
        try:
            answer = http.get_json(
                f"/compute/v1/projects/{quote(project, safe=':')}/zones/{quote(zone)}/instances/{raw['id']}",
                {"fields": f"id,{_METADATA}", "prettyPrint": "false"},
                project=project,
                what="Reading the metadata of a new VM",
                deadline=deadline,
            )
        except CloudError:
            return False
        if answer.get("id") != raw["id"]:
            return False
        raw["metadata"] = answer.get("metadata")
        _wait(listing, zone, digest, raw, _items_taken(raw))
    return True


def _take(page: Page, listing: InstanceListing, before: dict[str, Remembered], has_metadata: bool) -> None:
    for scope, why in page.unread.items():
        if (zone := zone_of(scope)) is not None:
            listing.unread_zones.setdefault(zone, why)
        else:
            listing.incomplete = listing.incomplete or f"{scope or 'the list'} could not be read whole: {why}."
    for scope, members in page.holdings:
        zone = zone_of(scope) or ""
        for raw in members:
            items = _items_taken(raw)
            try:
                digest = hash(orjson.dumps(raw))
            except TypeError as error:  # it is nested more deeply than any VM
                listing.garbled.append((zone, f"a VM: {error}"))
                continue
            gce_id = raw.get("id") if isinstance(raw, dict) else None
            remembered = before.get(gce_id) if isinstance(gce_id, str) else None
            fingerprint = _fingerprint_in(raw)
            if (
                remembered
                and remembered.digest == digest
                and remembered.zone == zone
                and (fingerprint or "metadata" not in raw)
            ):
                listing.same.append(remembered)
                continue
            if items is None and remembered and remembered.metadata_fingerprint == fingerprint != "":
                items = [{"key": key, "value": value} for key, value in remembered.origin.items()]
            if items is not None or has_metadata or not (gce_id and str(gce_id).isdecimal() and zone):
                _wait(listing, zone, digest, raw, items)
            else:
                listing.unread_metadata.append((zone, digest, raw))


def _wait(listing: InstanceListing, zone: str, digest: int, raw: Any, items: Any) -> None:
    if items:
        raw["metadata"]["items"] = items
    # Of a large fleet the text is held: parsed, it takes three times as much.
    listing.waiting.append((zone, digest, raw if len(listing.waiting) < _HELD_PARSED else orjson.dumps(raw)))


def _items_taken(raw: Any) -> Any:
    """Takes the metadata items out of a VM, and returns those that show a keeper; None where it has none to take.

    Start-up scripts and a node's settings, often 20 KB, are let go.
    """
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    items = metadata.pop("items", None) if isinstance(metadata, dict) else None
    if not isinstance(items, list):
        return items
    return [item for item in items if not isinstance(item, dict) or is_of_origin(item)]


def _fingerprint_in(raw: Any) -> str:
    """The fingerprint of its metadata; empty where it has none, and then nothing tells whether they changed."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    fingerprint = metadata.get("fingerprint") if isinstance(metadata, dict) else None
    return fingerprint if isinstance(fingerprint, str) else ""


@dataclass(slots=True)
class Fleet:
    """The VMs of one look, what will be remembered of them, and what could not be understood."""

    by_id: dict[str, Remembered] = field(default_factory=dict)  # of all VMs
    seen: dict[str, SeenInstance] = field(default_factory=dict)  # those that are new or changed, by id
    garbled: list[tuple[str, str]] = field(default_factory=list)  # zone, what was wrong

    @property
    def unchanged(self) -> tuple[Remembered, ...]:
        return tuple([one for gce_id, one in self.by_id.items() if gce_id not in self.seen])


def of_other_disks(listing: InstanceListing, disks: Mapping[str, DiskDetails]) -> list[str]:
    """Returns the unchanged VMs of which a disk is not any more what it was."""
    return [one.gce_id for one in listing.same if _details_now(one, disks) != one.disk_details]


def _details_now(one: Remembered, disks: Mapping[str, DiskDetails]) -> tuple[DiskDetails | None, ...]:
    """Adds what this listing of disks does not tell, and an earlier one told."""
    return tuple([disks.get(key) or old for key, old in zip(one.disk_keys, one.disk_details, strict=True)])


def join(
    project: str,
    listing: InstanceListing,
    disks: dict[str, DiskDetails],
    before: dict[str, Remembered],
    shape_of: Callable[[str, str], MachineShape | None],
) -> Fleet:
    """Instances with their disks. What waits is let go as it is converted."""
    fleet = Fleet(by_id={one.gce_id: one for one in listing.same}, garbled=listing.garbled)
    shapes = Shapes(shape_of)
    listing.waiting.reverse()
    while listing.waiting:
        zone, digest, held = listing.waiting.pop()
        raw = orjson.loads(held) if isinstance(held, bytes) else held
        try:
            seen, named = instance_from(project, zone, raw, disks, shapes)
        except Garbled as error:
            fleet.garbled.append((zone, str(error)))
            continue
        keys = tuple(map(intern, named))
        details = tuple([disks.get(key) for key in keys])
        old = before.get(seen.key.gce_id)
        if old is not None and None in details:
            # What this listing of disks does not tell, an earlier one may have told.
            details_by_disk = dict(zip(old.disk_keys, old.disk_details, strict=True))
            details = tuple(detail or details_by_disk.get(key) for key, detail in zip(keys, details, strict=True))
            seen = with_disks(seen, keys, {k: f for k, f in zip(keys, details, strict=True) if f})
        gce_id = seen.key.gce_id
        fleet.by_id[gce_id] = _remembered(seen, digest, keys, details, _fingerprint_in(raw))
        if old is None or old.digest is None or old.fingerprint != seen.fingerprint:
            fleet.seen[gce_id] = seen
    return fleet


def unread_of(project: str, listing: InstanceListing, fleet: Fleet, disks: DiskListing) -> list[Unread]:
    """Makes one entry for each zone and each list that was not read whole."""
    unread = [
        Unread(
            zone, f"Zone {zone} of project {project} could not be read: {why}. Its VMs are not known.", "unreachable"
        )
        for zone, why in sorted(listing.unread_zones.items())
    ]
    if listing.incomplete:
        code = listing.error.code if listing.error else "unreachable"
        unread.append(Unread("instances", listing.incomplete, code))
    by_zone: dict[str, list[str]] = {}
    for zone, what in fleet.garbled:
        by_zone.setdefault(zone, []).append(what)
    for zone, whats in sorted(by_zone.items()):
        unread.append(
            Unread(
                zone or "instances",
                f"{len(whats)} of the VMs in {zone or 'an unnamed zone'} of project {project} could not be understood;"
                f" the first: {whats[0]}. Until they can, VMs missing there are not taken for gone.",
                "bad_answer",
            )
        )
    if disks.error:
        unread.append(Unread("disks", f"{disks.error} The types of new disks are not known.", disks.error.code))
    elif disks.problems:
        unread.append(
            Unread(
                "disks",
                f"The disks of project {project} could not all be read ({first_of(disks.problems)})."
                " The types of new disks there are not known.",
                "unreachable",
            )
        )
    return unread
