"""Finds when a VM went, and its disks with it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from costguard.ledger.feed.unlisted import never_made_at, was_listed
from costguard.ledger.timeline import AT_ITS_TIME, ENDS, Run, deleted_at
from costguard.model.instance import SeenInstance
from costguard.model.lifetime import EndReason
from costguard.model.observation import SeenOperation
from costguard.model.record import KnownInstance

# Google, "Spot VMs", preemption process: a guest that does not shut down within 30 s of its notice is turned off.
_OFF_WITHIN = timedelta(seconds=30)


def gone_since(
    stored: KnownInstance | None,
    seen: SeenInstance | None,
    operations: Sequence[SeenOperation],
    runs: Sequence[Run],
    absent_at: datetime | None,
) -> datetime | None:
    """Returns when a VM went; None while nothing says that it did. `absent_at` is the look that did not have it.

    One that Google deletes as it preempts it, or when its time is over, goes without an operation that lasts, even as
    it comes up. Its disks bill until it is off: the estimate is the latest moment that this can have been.
    """
    deletion = deleted_at([op for op in operations if op.kind != AT_ITS_TIME])
    if deletion is not None:
        return deletion
    if seen is not None:
        return None
    if not runs and not was_listed(stored) and (asked_at := never_made_at(operations)) is not None:
        return asked_at
    missed_at = stored.record.gone_at if stored is not None and stored.record.gone_at is not None else absent_at
    if missed_at is None:
        return deleted_at(operations)
    struck = [op for op in operations if ENDS.get(op.kind) is EndReason.PREEMPTED or op.kind == AT_ITS_TIME]
    last = max(struck, key=lambda op: op.inserted_at, default=None)
    if last is not None and not _was_there_after(last, stored, runs):
        return max(last.inserted_at, min(missed_at, last.inserted_at + _OFF_WITHIN))
    return missed_at


def _was_there_after(struck: SeenOperation, stored: KnownInstance | None, runs: Sequence[Run]) -> bool:
    """Says whether it ran again, or was seen to stay, stopped."""
    # Of a start that the event fell inside, the ledger may hold a moment after it.
    ran_later = [run for run in runs if run.reason is not ENDS[struck.kind]]
    if ran_later and ran_later[-1].started_at > struck.inserted_at:
        return True
    stopped_at = stored.record.last_stopped_at if stored is not None else None
    return stopped_at is not None and stopped_at >= struck.inserted_at
