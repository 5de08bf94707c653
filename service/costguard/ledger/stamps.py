"""Finds when what Google's lists give no stamp of last started: TPU nodes, Colab runtimes, preempted jobs. Pure.

Times that cannot be are taken for unknown first. A start in the year 2999 would end the run before it then, and one of
2008 would bill until the next start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from costguard.model.instance import AttachedDisk, InstanceKind, SeenInstance, Status
from costguard.model.observation import OperationStatus, SeenOperation
from costguard.model.record import KnownInstance

_STARTS = frozenset({"insert", "start"})
_WITHOUT_STAMPS = frozenset({InstanceKind.TPU_NODE, InstanceKind.COLAB_RUNTIME})
_WAITS = frozenset({Status.PENDING, Status.PROVISIONING})
_CLOCKS_APART = timedelta(days=1)  # the most that Google's clock and this machine's are taken to differ


def believable_operations(operations: Sequence[SeenOperation], read_at: datetime) -> Sequence[SeenOperation]:
    """Leaves out operations that began or ended after they were read, or before they were asked for."""
    latest = read_at + _CLOCKS_APART
    return [one for one in operations if all(one.inserted_at - _CLOCKS_APART <= at <= latest for at in _times(one))]


def _times(one: SeenOperation) -> list[datetime]:
    return [at for at in (one.inserted_at, one.started_at, one.ended_at) if at is not None]


def _believable(seen: SeenInstance, read_at: datetime) -> SeenInstance:
    """Makes stamps after the look unknown, and a start before the VM was made: its stops may be of an earlier life.

    A VM that says that it was made after the look was made by then.
    """
    latest = read_at + _CLOCKS_APART
    created_at = seen.created_at if seen.created_at <= latest else read_at

    def stamp(at: datetime | None) -> datetime | None:
        return at if at is not None and at <= latest else None

    started_at = stamp(seen.last_started_at)
    return replace(
        seen,
        created_at=created_at,
        last_started_at=started_at if started_at is None or started_at >= created_at - _CLOCKS_APART else None,
        last_stopped_at=stamp(seen.last_stopped_at),
        last_suspended_at=stamp(seen.last_suspended_at),
        disks=tuple([_disk(one, latest) for one in seen.disks]),
    )


def _disk(one: AttachedDisk, latest: datetime) -> AttachedDisk:
    return replace(one, created_at=None) if one.created_at is not None and one.created_at > latest else one


def stamped(
    seen: SeenInstance | None, stored: KnownInstance | None, operations: Sequence[SeenOperation], read_at: datetime
) -> SeenInstance | None:
    """Gives a TPU node or a runtime the stamp of its last start: from an operation, or else from the looks.

    One that was seen coming up, repaired or off, and is ready now, started by this look. One that nobody saw before
    and no operation tells of counts from its creation. What has stamps keeps those that can be.
    """
    if seen is not None:
        seen = _believable(seen, read_at)
    if seen is not None and seen.key.kind is InstanceKind.CUSTOM_JOB and stored is not None:
        return _job_that_may_have_waited(seen, stored, read_at)
    if seen is None or seen.key.kind not in _WITHOUT_STAMPS:
        return seen
    started_at = stored.record.last_started_at if stored is not None else None
    done = [op.ended_at for op in operations if op.kind in _STARTS and _is_done(op) and op.ended_at is not None]
    latest = max(done, default=None)
    if latest is not None and (started_at is None or latest > started_at):
        started_at = latest
    elif stored is not None and seen.status.bills_machine and not _was_up(stored.record.status):
        started_at = read_at
    return replace(seen, last_started_at=started_at)


def _job_that_may_have_waited(seen: SeenInstance, stored: KnownInstance, read_at: datetime) -> SeenInstance:
    """Gives a custom job that waited for machines again, and has them, the stamp of this look.

    Its startTime is of "the first time" that it ran (CustomJob of aiplatform.v1), and "you don't pay for the time that
    the job is in a queue or preempted" (Google, "Use Spot VMs with training"). One that is cancelled as it waits gets
    no machines.
    """
    before, waited = stored.record.last_started_at, stored.record.status in _WAITS
    if before is None:
        return seen
    if waited and seen.status is Status.PENDING_STOP:
        seen = replace(seen, status=stored.record.status)
    again = waited and seen.status.bills_machine
    return replace(seen, last_started_at=read_at if again else max(before, seen.last_started_at or before))


def _is_done(op: SeenOperation) -> bool:
    return op.status is OperationStatus.DONE and op.error_code is None


def _was_up(status: Status) -> bool:
    return status.bills_machine or status is Status.UNKNOWN
