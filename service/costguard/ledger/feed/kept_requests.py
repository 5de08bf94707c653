"""Rows of what inserts asked for, of VMs that no listing has shown yet, and what these are made of.

Requests of bulk inserts stand in rows of their own, under the names of their operations: no VM's number is like one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog
from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, select, tuple_

from costguard.db.bulk import CHUNK, chunks
from costguard.db.tables import feed_requests
from costguard.db.transaction import Database
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.errors import CloudError
from costguard.ledger.feed.bulk import LATEST_CHILD, BulkRequest, request_of
from costguard.ledger.feed.request import FeedRequest
from costguard.model.instance import AttachedDisk, InstanceKey, ProvisioningModel, Shape
from costguard.model.launch import Recipe
from costguard.model.observation import SeenOperation
from costguard.model.ports import Cloud
from costguard.model.record import VmRequested

log = structlog.get_logger(__name__)

_REQUEST = TypeAdapter(FeedRequest)
_BULK = TypeAdapter(BulkRequest)
_OPERATION = "operation-"  # begins the name of every operation that a call began


@dataclass(frozen=True, slots=True)
class KeptRequest:
    zone: str
    request: FeedRequest

    @property
    def says_all(self) -> bool:
        """Says whether it tells what a VM is. One from a template, for one, does not."""
        return self.request.machine_type is not None and self.request.provisioning is not None


@dataclass(frozen=True, slots=True)
class Untold:
    """A VM of which nothing says what it is, heard of at `heard_at`."""

    key: InstanceKey
    heard_at: datetime
    request: FeedRequest


UNTOLD = KeptRequest("", FeedRequest(None, None))
"""Marks a VM of which nothing says what it is."""


def note(connection: Connection, requests: Mapping[InstanceKey, KeptRequest], heard_at: datetime) -> None:
    """Keeps what was heard first: an entry that comes again says the same. What says nothing makes way for more."""
    stored = read(connection, requests)
    rows = [
        _row(key, one.zone, _REQUEST.dump_python(one.request, mode="json"), heard_at)
        for key, one in requests.items()
        if key not in stored or (one.says_all and not stored[key].says_all)
    ]
    upsert(connection, feed_requests, rows, ("project", "gce_id"), ["zone", "request"])


def note_asked(connection: Connection, some: Iterable[Untold]) -> None:
    """Counts that the history of assets was asked about these VMs, and knew nothing of them."""
    rows = [
        _row(
            one.key,
            "",
            _REQUEST.dump_python(replace(one.request, asked=one.request.asked + 1), mode="json"),
            one.heard_at,
        )
        for one in some
    ]
    upsert(connection, feed_requests, rows, ("project", "gce_id"), ["request"])


def note_bulks(connection: Connection, bulks: Mapping[tuple[str, str], BulkRequest], heard_at: datetime) -> None:
    """Keeps what bulk inserts asked for, by project and operation: their VMs are heard of before or after it."""
    rows = [
        _row(InstanceKey(project, operation), bulk.place, _BULK.dump_python(bulk, mode="json"), heard_at)
        for (project, operation), bulk in bulks.items()
    ]
    upsert(connection, feed_requests, rows, ("project", "gce_id"), [])


def bulks_of(connection: Connection, projects: Collection[str], since: datetime) -> dict[str, list[BulkRequest]]:
    """Returns the bulk inserts that were asked for since, by project."""
    columns = feed_requests.c
    bulks: dict[str, list[BulkRequest]] = {}
    for some in chunks(set(projects)):
        query = select(columns.project, columns.request).where(
            columns.project.in_(some), columns.gce_id.like(f"{_OPERATION}%"), columns.heard_at >= since
        )
        for project, request in connection.execute(query):
            bulks.setdefault(project, []).append(_BULK.validate_python(request))
    return bulks


def of_bulks(
    connection: Connection,
    inserts: Mapping[InstanceKey, SeenOperation],
    more: Mapping[tuple[str, str], BulkRequest] | None = None,
) -> dict[InstanceKey, KeptRequest]:
    """Returns what was asked for of VMs, by their inserts and the bulk inserts that made them.

    These are in the ledger, or among `more`, by project and operation. VMs of none are left out.
    """
    if not inserts:
        return {}
    since = min(op.inserted_at for op in inserts.values()) - LATEST_CHILD
    bulks = bulks_of(connection, {key.project for key in inserts}, since)
    for (project, _), bulk in (more or {}).items():
        bulks.setdefault(project, []).append(bulk)
    requests = {key: request_of(op, bulks.get(key.project, ())) for key, op in inserts.items()}
    return {key: KeptRequest(inserts[key].zone, one) for key, one in requests.items() if one is not None}


def _row(key: InstanceKey, zone: str, request: Any, heard_at: datetime) -> dict[str, Any]:
    return {
        "project": key.project,
        "gce_id": storable(key.gce_id),
        "heard_at": heard_at,
        "zone": storable(zone),
        "request": storable(request),
    }


def read(connection: Connection, keys: Iterable[InstanceKey]) -> dict[InstanceKey, KeptRequest]:
    """Returns what was asked for of these VMs; the others are left out."""
    columns, requests = feed_requests.c, {}
    pairs = sorted({(key.project, key.gce_id) for key in keys})
    for place in range(0, len(pairs), CHUNK):
        query = select(feed_requests).where(tuple_(columns.project, columns.gce_id).in_(pairs[place : place + CHUNK]))
        for row in connection.execute(query):
            requests[InstanceKey(row.project, row.gce_id)] = KeptRequest(
                row.zone, _REQUEST.validate_python(row.request)
            )
    return requests


def untold(connection: Connection, since: datetime) -> list[Untold]:
    """Returns those that were heard of since, the oldest first."""
    columns = feed_requests.c
    query = select(feed_requests).where(columns.heard_at >= since, columns.gce_id.not_like(f"{_OPERATION}%"))
    rows = connection.execute(query.order_by(columns.heard_at, columns.project, columns.gce_id))
    kept = [(row, KeptRequest(row.zone, _REQUEST.validate_python(row.request))) for row in rows]
    return [
        Untold(InstanceKey(row.project, row.gce_id), row.heard_at, one.request) for row, one in kept if not one.says_all
    ]


def forget(connection: Connection, project: str, gce_ids: Collection[str]) -> None:
    """A listing has shown these VMs, which says more."""
    if gce_ids:
        columns = feed_requests.c
        connection.execute(delete(feed_requests).where(columns.project == project, columns.gce_id.in_(sorted(gce_ids))))


def forget_old(connection: Connection, before: datetime) -> int:
    """Drops what was heard before this, and returns how many rows."""
    return connection.execute(delete(feed_requests).where(feed_requests.c.heard_at < before)).rowcount


def vms_of(cloud: Cloud, requests: Mapping[InstanceKey, KeptRequest]) -> dict[InstanceKey, VmRequested]:
    """Looks up each machine type once, before anything is written. One that cannot be read leaves its VM unpriced.

    A request without a machine type or how it is bought, as from a template, tells nothing of its VM.
    """
    machines: dict[tuple[str, str, str], Shape] = {}
    vms = {}
    for key, one in requests.items():
        machine_type = one.request.machine_type
        if machine_type is None or not one.says_all:
            continue
        place = (key.project, one.zone, machine_type)
        if place not in machines:
            machines[place] = _machine(cloud, *place)
        vms[key] = _vm(one.request, machines[place])
    return vms


def _machine(cloud: Cloud, project: str, zone: str, machine_type: str) -> Shape:
    machine = None
    try:
        machine = cloud.shape(project, zone, machine_type)
    except CloudError as error:
        log.warning("machine_type_not_read", machine_type=machine_type, error=str(error))
    return machine if machine is not None else Shape(machine_type, 0, 0)


def _vm(request: FeedRequest, machine: Shape) -> VmRequested:
    """Local SSDs that a machine type has built in are in some requests, and count once, as in a listing."""
    shape: dict[str, Any] = {"local_ssd_gib": max(request.local_ssd_gib, machine.local_ssd_gib)}
    if request.gpu_type is not None and request.gpu_count:
        shape |= {"gpu_type": request.gpu_type, "gpu_count": request.gpu_count}
    return VmRequested(
        replace(machine, **shape),
        request.provisioning or ProvisioningModel.STANDARD,
        request.labels,
        _disks(request),
        request.external_addresses,
        request.ran_from,
        request.gone_at,
    )


def _disks(request: FeedRequest) -> tuple[AttachedDisk, ...]:
    """The size of a disk that its image decides is not known before a listing shows it."""
    sized: Sequence[Any] = [disk for disk in request.disks if disk.size_gib is not None]
    return tuple(
        AttachedDisk(disk.name, disk.size_gib, disk.disk_type, None, disk.boot, disk.auto_delete) for disk in sized
    )


def asked_for(
    database: Database,
    cloud: Cloud,
    project: str,
    of_jobs: Mapping[str, tuple[str, Recipe]],
    unlisted: Sequence[str],
    news: Mapping[str, Sequence[SeenOperation]],
) -> dict[str, VmRequested]:
    """Looks up what was asked for of VMs that no listing shows, before anything is written: by jobs, or by entries of
    the audit log. `news` are new operations by VM.

    A machine type that cannot be read leaves its VM without a price.
    """
    kept: dict[InstanceKey, KeptRequest] = {}
    if unlisted:
        with database.read() as connection:
            stored = read(connection, [InstanceKey(project, gce_id) for gce_id in unlisted])
            kept = {key: one for key, one in stored.items() if one.says_all}
            inserts = {
                InstanceKey(project, gce_id): op
                for gce_id in unlisted
                for op in news.get(gce_id, ())
                if op.kind == "insert" and op.error_code is None
            }
            kept |= of_bulks(connection, {key: op for key, op in inserts.items() if key not in kept})
    requests = {key.gce_id: one for key, one in vms_of(cloud, kept).items()}
    for gce_id, (zone, recipe) in of_jobs.items():
        try:
            machine = cloud.shape(project, zone, recipe.machine_type)
        except CloudError as error:
            log.warning("machine_type_not_read", machine_type=recipe.machine_type, error=str(error))
            continue
        if machine is not None:
            disk = AttachedDisk("", recipe.disk_gib, recipe.disk_type, None, boot=True, auto_delete=True)
            requests[gce_id] = VmRequested(
                recipe.shape(machine),
                recipe.provisioning_model,
                recipe.labels,
                (disk,),
                int(recipe.external_address is not False),
            )
    return requests
