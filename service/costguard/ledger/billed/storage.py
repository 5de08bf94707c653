"""The billed storage of a VM: its disks, and its memory while suspended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from costguard.ledger.timeline import ENDS, Run
from costguard.model.instance import AttachedDisk, InstanceKey, SeenInstance, Status
from costguard.model.lifetime import EndReason, StorageSpan
from costguard.model.observation import SeenOperation

MEMORY = "saved memory"  # no disk can have this name
MEMORY_RESOURCE = "suspended-memory"


def disks_of(
    key: InstanceKey,
    stored: Sequence[StorageSpan],
    seen: SeenInstance,
    operations: Sequence[SeenOperation],
    account_from: datetime,
    is_new: bool,
    read_at: datetime,
) -> list[StorageSpan]:
    """Spans to store, so that the open ones are the disks that the VM has now.

    A disk whose type could not be read leaves what is known as it is. A change of size or type, or another disk of the
    same name, ends one span and starts another at `read_at`: no operation on the VM tells when it happened.
    """
    open_spans = {span.name: span for span in stored if span.ended_at is None and span.name != MEMORY}
    changed: list[StorageSpan] = []
    for disk in seen.disks:
        span = open_spans.pop(disk.name, None)
        resource = f"disk:{disk.disk_type}" if disk.disk_type is not None else None
        size_mib = disk.size_gib * 1024
        if span is None:
            started_at = _attached_at(disk, operations, account_from, is_new)
            changed.append(StorageSpan(key, disk.name, resource, size_mib, seen.zone, started_at, disk_id=disk.gce_id))
            continue
        named = replace(span, disk_id=disk.gce_id) if span.disk_id is None else span
        is_other = disk.gce_id is not None and named.disk_id != disk.gce_id
        if span.resource is None and resource is not None:
            changed.append(replace(named, resource=resource))
        elif (resource is not None and span.resource != resource) or span.size_mib != size_mib or is_other:
            changed.append(replace(named, ended_at=read_at))
            kept = resource or span.resource
            disk_id = disk.gce_id or named.disk_id
            changed.append(StorageSpan(key, disk.name, kept, size_mib, seen.zone, read_at, disk_id=disk_id))
        elif named != span:
            changed.append(named)
    detached_at = max(
        (op.started_at for op in operations if op.kind == "detachDisk" and op.started_at), default=read_at
    )
    changed += (replace(span, ended_at=max(detached_at, span.started_at)) for span in open_spans.values())
    return changed


def _attached_at(
    disk: AttachedDisk, operations: Sequence[SeenOperation], account_from: datetime, is_new: bool
) -> datetime:
    if is_new or disk.created_at is None:
        return max(disk.created_at or account_from, account_from)
    attached = [op.ended_at for op in operations if op.kind == "attachDisk" and op.ended_at is not None]
    return max(disk.created_at, attached[-1] if attached else account_from)


def saved_memory_of(
    key: InstanceKey,
    runs: Sequence[Run],
    operations: Sequence[SeenOperation],
    memory_mib: int,
    zone: str,
    gone_at: datetime | None,
    seen: SeenInstance | None,
    read_at: datetime,
) -> list[StorageSpan]:
    """A suspended VM pays for its saved memory from the end of a run until it is resumed, stopped or deleted."""
    spans = []
    is_off = seen is not None and seen.status in {Status.STOPPING, Status.STOPPED}
    stopped_at = seen.last_stopped_at if seen is not None else None
    for place, run in enumerate(runs):
        if run.reason is not EndReason.SUSPENDED or run.ended_at is None:
            continue
        ends = [following.started_at for following in runs[place + 1 : place + 2]]
        ends += [
            op.started_at
            for op in operations
            if op.kind in ENDS
            and op.kind != "suspend"
            and op.error_code is None
            and op.started_at
            and op.started_at > run.ended_at
        ]
        ends += [gone_at] if gone_at is not None else []
        if is_off and not ends:
            ends.append(stopped_at if stopped_at is not None and stopped_at > run.ended_at else read_at)
        ended_at = min(ends, default=None)
        resource = MEMORY_RESOURCE if memory_mib else None  # None: the machine type is not known
        spans.append(StorageSpan(key, MEMORY, resource, memory_mib, zone, run.ended_at, ended_at))
    return spans
