"""Works out the record of a VM that no listing has shown yet, from its operations and its request. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from costguard.ledger.timeline import DELETES, SAME_START, STARTS, Run
from costguard.model.instance import InstanceKey, ProvisioningModel, SeenInstance, Shape, Status
from costguard.model.lifetime import ADDRESS, Attribution, EndReason, StorageSpan
from costguard.model.observation import OperationStatus, SeenOperation
from costguard.model.record import InstanceRecord, KnownInstance, VmRequested

_NO_SHAPE = Shape("", 0, 0)


def was_listed(stored: KnownInstance | None) -> bool:
    """Says whether a listing has shown it: what operations alone tell of has no fingerprint."""
    return stored is not None and stored.record.fingerprint != ""


def was_accepted(operations: Sequence[SeenOperation]) -> bool:
    """Says whether an insert of it was accepted, and has not failed."""
    return any(op.kind == "insert" and op.error_code is None for op in operations)


def is_untold(stored: KnownInstance | None, operations: Sequence[SeenOperation], gpu_only: bool) -> bool:
    """Says whether a VM of which no request is known was made, and no listing has said what it is.

    With `gpu_only`, VMs that a listing has shown may not be in the ledger: only one whose insert came is none of them.
    """
    if was_listed(stored) or (stored is not None and stored.record.shape.machine_type):
        return False
    is_made = was_accepted(operations)
    return is_made or (not gpu_only and never_made_at(operations) is None)


def never_made_at(operations: Sequence[SeenOperation]) -> datetime | None:
    """Returns when an insert was asked for that failed, unless another did not."""
    inserts = [op for op in operations if op.kind == "insert"]
    failed = [op for op in inserts if op.error_code is not None and op.status is OperationStatus.DONE]
    return inserts[-1].inserted_at if inserts and len(failed) == len(inserts) else None


def unseen_record(
    key: InstanceKey,
    stored: KnownInstance | None,
    operations: Sequence[SeenOperation],
    requested: VmRequested | None,
    runs: Sequence[Run],
    read_at: datetime,
) -> InstanceRecord:
    """Operations tell when it ran, and its request what it is; the same ones always make the same record."""
    first = operations[0]
    before = stored.record if stored is not None else None
    if requested is None and before is not None and before.shape.machine_type:
        requested = VmRequested(before.shape, before.provisioning_model, before.labels)
    return InstanceRecord(
        key=key,
        name=next((op.target_name for op in operations if op.target_name), ""),
        zone=first.zone,
        status=_status(operations, runs),
        created_at=first.inserted_at,
        shape=requested.shape if requested is not None else _NO_SHAPE,
        provisioning_model=requested.provisioning_model if requested is not None else ProvisioningModel.STANDARD,
        attribution=Attribution(),
        fingerprint="",
        first_seen_at=before.first_seen_at if before is not None else read_at,
        labels=requested.labels if requested is not None else {},
        keeper=before.keeper if before is not None else None,
    )


def _status(operations: Sequence[SeenOperation], runs: Sequence[Run]) -> Status:
    if not runs:
        return Status.PROVISIONING if was_accepted(operations) else Status.UNKNOWN
    if runs[-1].ended_at is None:
        return Status.RUNNING
    return Status.SUSPENDED if runs[-1].reason is EndReason.SUSPENDED else Status.STOPPED


def with_bounds(
    key: InstanceKey, operations: Sequence[SeenOperation], requested: VmRequested | None
) -> Sequence[SeenOperation]:
    """The operations with an insert and a delete as the history of assets has them, where none tells of these.

    They are stored nowhere: an operation that comes to light later stands in their place.
    """
    if requested is None:
        return operations
    more = []
    name, zone = (operations[0].target_name, operations[0].zone) if operations else ("", "")
    for kind, at, kinds in (("insert", requested.ran_from, STARTS), ("delete", requested.gone_at, DELETES)):
        if at is not None and not any(op.kind in kinds for op in operations):
            done = OperationStatus.DONE
            more.append(
                SeenOperation(key.project, f"history-{kind}", kind, key.gce_id, name, zone, "", done, at, at, at)
            )
    return sorted([*operations, *more], key=lambda op: (op.inserted_at, op.operation_id)) if more else operations


def requested_disks(record: InstanceRecord, requested: VmRequested, stored: Sequence[StorageSpan]) -> list[StorageSpan]:
    """The disks that its request made, from then on. Google gives a disk without a name that of its VM."""
    names = {span.name for span in stored}
    return [
        StorageSpan(record.key, name, f"disk:{disk.disk_type}", disk.size_gib * 1024, record.zone, record.created_at)
        for disk in requested.disks
        if (name := disk.name or record.name) not in names
    ]


def as_listed(stored: Sequence[StorageSpan], listed: Sequence[StorageSpan]) -> list[StorageSpan]:
    """The disks of a VM that is listed for the first time, in place of those that its request told of.

    One that the listing does not show never was.
    """
    old = {span.name: span for span in stored if span.ended_at is None}
    fresh = [replace(span, id=old.pop(span.name).id) if span.name in old else span for span in listed]
    return [span for span in stored if span.ended_at is not None] + fresh + [
        replace(span, ended_at=span.started_at) for span in old.values()
    ]  # fmt: skip


def still_heard(operations: Iterable[SeenOperation]) -> dict[datetime, SeenOperation]:
    """Returns operations whose ends only the feed has told, by these."""
    return {op.ended_at: op for op in operations if op.end_from_entry and op.ended_at is not None}


def with_better_starts(
    stored: KnownInstance, from_entries: Mapping[datetime, SeenOperation], seen: SeenInstance | None
) -> KnownInstance:
    """The VM with the starts that only the feed told as they are known now: by its own stamp, else by the operation.

    `from_entries` are the operations by the ends that the feed had heard of them.
    """
    moves: dict[datetime, datetime] = {}
    starts = {life.started_at for life in stored.lifetimes}
    for life in stored.lifetimes:
        at = _start_of(from_entries.get(life.started_at), seen)
        if at is not None and at not in starts and (life.ended_at is None or at <= life.ended_at):
            moves[life.started_at] = at
    if not moves:
        return stored
    return replace(
        stored,
        lifetimes=tuple(
            replace(life, started_at=moves.get(life.started_at, life.started_at)) for life in stored.lifetimes
        ),
        storage=tuple(
            replace(span, started_at=moves.get(span.started_at, span.started_at)) if span.name == ADDRESS else span
            for span in stored.storage
        ),
    )


def _start_of(op: SeenOperation | None, seen: SeenInstance | None) -> datetime | None:
    if op is None or op.kind not in STARTS or op.error_code is not None or op.ended_at is None:
        return None
    stamp = seen.last_started_at if seen is not None else None
    return stamp if stamp is not None and abs(stamp - op.ended_at) <= SAME_START else op.ended_at
