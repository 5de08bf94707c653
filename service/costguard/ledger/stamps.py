"""Finds when what Google's lists give no stamp of last started: TPU nodes, Colab runtimes, preempted jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from costguard.model.instance import InstanceKind, SeenInstance, Status
from costguard.model.observation import OperationStatus, SeenOperation
from costguard.model.record import KnownInstance

_STARTS = frozenset({"insert", "start"})
_WITHOUT_STAMPS = frozenset({InstanceKind.TPU_NODE, InstanceKind.COLAB_RUNTIME})
_WAITS = frozenset({Status.PENDING, Status.PROVISIONING})


def stamped(
    seen: SeenInstance | None, stored: KnownInstance | None, operations: Sequence[SeenOperation], read_at: datetime
) -> SeenInstance | None:
    """Gives a TPU node or a runtime the stamp of its last start: from an operation, or else from the looks.

    One that was seen coming up, repaired or off, and is ready now, started by this look. One that nobody saw before
    and no operation tells of counts from its creation.
    """
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
