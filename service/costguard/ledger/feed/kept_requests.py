"""Rows of what inserts asked for, of VMs that no listing has shown yet, and what these are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog
from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, select, tuple_

from costguard.db.bulk import CHUNK
from costguard.db.tables import feed_requests
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.errors import CloudError
from costguard.ledger.feed.request import FeedRequest
from costguard.model.instance import AttachedDisk, InstanceKey, ProvisioningModel, Shape
from costguard.model.ports import Cloud
from costguard.model.record import VmRequested

log = structlog.get_logger(__name__)

_REQUEST = TypeAdapter(FeedRequest)


@dataclass(frozen=True, slots=True)
class KeptRequest:
    zone: str
    request: FeedRequest


def note(connection: Connection, requests: Mapping[InstanceKey, KeptRequest], heard_at: datetime) -> None:
    """Keeps what was heard first: an entry that comes again says the same."""
    rows = [
        {
            "project": key.project,
            "gce_id": key.gce_id,
            "heard_at": heard_at,
            "zone": storable(one.zone),
            "request": storable(_REQUEST.dump_python(one.request, mode="json")),
        }
        for key, one in requests.items()
    ]
    upsert(connection, feed_requests, rows, ("project", "gce_id"), [])


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

    A request without a machine type, as from a template, tells nothing of its VM.
    """
    machines: dict[tuple[str, str, str], Shape] = {}
    vms = {}
    for key, one in requests.items():
        machine_type = one.request.machine_type
        if machine_type is None:
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
    )


def _disks(request: FeedRequest) -> tuple[AttachedDisk, ...]:
    """The size of a disk that its image decides is not known before a listing shows it."""
    sized: Sequence[Any] = [disk for disk in request.disks if disk.size_gib is not None]
    return tuple(
        AttachedDisk(disk.name, disk.size_gib, disk.disk_type, None, disk.boot, disk.auto_delete) for disk in sized
    )
