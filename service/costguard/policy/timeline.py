"""When one VM ran: from operations, its listing, and what the ledger already holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum

from costguard.model.instance import SeenInstance, Status
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.observation import OperationStatus, SeenOperation

# Google writes lastStartTimestamp as the operation ends, not at the same instant.
_SAME_START = timedelta(seconds=10)
# Starting a VM that runs does nothing, and is done without an error within a second; a real start takes longer.
_REAL_START = timedelta(seconds=2)

_STARTS = frozenset({"insert", "start", "resume", "startWithEncryptionKey"})
# A system event: it says that a start was begun, not when the VM ran again.
_RESTARTS = frozenset({"compute.instances.automaticRestart"})

ENDS = {
    "stop": EndReason.STOPPED,
    "suspend": EndReason.SUSPENDED,
    "delete": EndReason.DELETED,
    "compute.instances.preempted": EndReason.PREEMPTED,
    "compute.instances.hostError": EndReason.HOST_ERROR,
    "compute.instances.terminateOnHostMaintenance": EndReason.HOST_MAINTENANCE,
    "compute.instances.guestTerminate": EndReason.GUEST_SHUTDOWN,
    "compute.instances.deferredStop": EndReason.RUN_TIME_LIMIT,
    "compute.instances.deferredDelete": EndReason.RUN_TIME_LIMIT,
    "compute.instances.scheduledStop": EndReason.STOPPED,
}
DELETES = frozenset({"delete", "compute.instances.deferredDelete"})


@dataclass(frozen=True, slots=True)
class Run:
    """One continuous billed run. An estimated end is the latest moment that it can have ended."""

    started_at: datetime
    ended_at: datetime | None = None
    reason: EndReason | None = None
    by: str = ""
    end_is_estimate: bool = False


class _Order(IntEnum):
    """At one instant: an end that was only estimated, then starts, then ends that an operation tells."""

    ESTIMATED_END = 0
    START = 1
    END = 2


@dataclass(frozen=True, slots=True)
class _Event:
    at: datetime
    order: _Order
    weak: bool = False  # a start whose true moment may be told by a later event
    if_off: bool = False  # a start that does nothing where the VM runs
    of_start: datetime | None = None  # the one run that an estimated end belongs to
    reason: EndReason | None = None
    by: str = ""
    is_estimate: bool = False


def runs_of(
    known: Sequence[Lifetime],
    operations: Sequence[SeenOperation],
    seen: SeenInstance | None,
    read_at: datetime,
    absent: bool = False,
) -> list[Run]:
    """Every run that the evidence tells, oldest first; the same evidence always gives the same runs.

    `operations` are all that were ever recorded for this VM. `seen` is its listing at `read_at`; `absent`
    says that it is confirmed to be gone. Ends told by operations are derived anew each time, so that an
    operation that fails after all takes its end back; only starts and estimated ends are remembered.
    """
    good = [op for op in operations if op.error_code is None]
    believed = [op for op in good if not (_did_nothing(op, good, seen, read_at) or _was_graceful(op, known, seen))]
    events = _starts(known, believed, seen)
    events += (e for op in believed if (e := _end(op, seen)) is not None)
    events += (
        _Event(life.ended_at, _Order.ESTIMATED_END, of_start=life.started_at, reason=life.end_reason, by=life.ended_by)
        for life in known
        if life.ended_at is not None and life.end_is_estimate and not _is_back(life, good, seen, read_at)
    )
    runs = _fold(sorted(events, key=lambda e: (e.at, e.order)), seen)
    return _settle_last(runs, known, seen, read_at, absent)


def created_by(operations: Iterable[SeenOperation]) -> str:
    """The account whose insert operation made this VM; empty when that operation was never read."""
    # An insert fails when the VM is preempted while it comes up; the VM is there all the same.
    return next((op.user for op in operations if op.kind == "insert"), "")


def deleted_at(operations: Iterable[SeenOperation]) -> datetime | None:
    """When a delete operation finished, if one did."""
    return next((op.ended_at for op in operations if op.kind in DELETES and _is_done(op)), None)


def _is_done(op: SeenOperation) -> bool:
    return op.status is OperationStatus.DONE and op.error_code is None and op.ended_at is not None


def _starts(known: Sequence[Lifetime], operations: Sequence[SeenOperation], seen: SeenInstance | None) -> list[_Event]:
    """Starts told several times are one start: the ledger's own moment wins, then the VM's, then the operation's.

    Two operations are two starts, however close: a VM can shut down and be up again within ten seconds.
    """
    listed: list[datetime] = []
    if seen is not None:
        # Answers from before 2015 lack lastStartTimestamp; such a VM ran at least since it was made.
        started_at = seen.last_started_at or (seen.created_at if seen.status.bills_machine else None)
        listed += [started_at] if started_at is not None else []
    starts = {op.ended_at: op for op in operations if op.kind in _STARTS and _is_done(op) and op.ended_at is not None}
    told = sorted(starts)
    in_ledger, ledger_alone = _paired([life.started_at for life in known], told)
    in_listing, listed_alone = _paired(listed, told)
    listed_alone = _paired(listed_alone, sorted(ledger_alone))[1]
    events = [_Event(moment, _Order.START) for moment in ledger_alone + listed_alone]
    for moment in told:
        better = in_ledger.get(moment) or in_listing.get(moment)
        events.append(_Event(better or moment, _Order.START, if_off=better is None and _was_quick(starts[moment])))
    events += [
        _Event(op.ended_at or op.inserted_at, _Order.START, weak=True) for op in operations if op.kind in _RESTARTS
    ]
    return events


def _was_quick(op: SeenOperation) -> bool:
    return (
        op.kind != "insert"
        and op.started_at is not None
        and op.ended_at is not None
        and op.ended_at - op.started_at < _REAL_START
    )


def _paired(moments: Sequence[datetime], told: Sequence[datetime]) -> tuple[dict[datetime, datetime], list[datetime]]:
    """Which of `moments` is which of `told` (sorted), the closest first; and those that are none of them."""
    near = sorted(
        (abs(moment - other), other, moment)
        for moment in moments
        for other in told[bisect_left(told, moment - _SAME_START) : bisect_right(told, moment + _SAME_START)]
    )
    found: dict[datetime, datetime] = {}
    taken: set[datetime] = set()
    for _, other, moment in near:
        if other not in found and moment not in taken:
            found[other] = moment
            taken.add(moment)
    return found, [moment for moment in moments if moment not in taken]


def _end(op: SeenOperation, seen: SeenInstance | None) -> _Event | None:
    """Billing ends when the VM turns STOPPING: as the operation starts, unless the stop is a graceful one."""
    reason = ENDS.get(op.kind)
    if reason is None or (op.started_at is None and op.status is OperationStatus.PENDING):
        return None
    at, is_estimate = op.started_at or op.inserted_at, False
    if seen is not None and seen.graceful_stop and op.kind in {"stop", "delete"}:
        if op.status is not OperationStatus.DONE:
            return None  # PENDING_STOP bills as running
        is_estimate = True
        stopped_at = seen.last_stopped_at
        at = stopped_at if stopped_at is not None and stopped_at >= at else op.ended_at or at
    return _Event(at, _Order.END, reason=reason, by=op.user, is_estimate=is_estimate)


def _did_nothing(
    op: SeenOperation, operations: Sequence[SeenOperation], seen: SeenInstance | None, read_at: datetime
) -> bool:
    """Whether an end operation evidently left the VM running: done before the listing that shows it running on."""
    if op.kind not in ENDS or not _is_done(op) or op.ended_at is None or op.ended_at >= read_at:
        return False
    return _runs_on_since(op.started_at or op.inserted_at, operations, seen)


def _was_graceful(op: SeenOperation, known: Sequence[Lifetime], seen: SeenInstance | None) -> bool:
    """Whether the ledger holds when this stop's grace was over, which nothing tells once the VM is gone."""
    if op.kind not in {"stop", "delete"} or (seen is not None and seen.graceful_stop):
        return False
    asked_at, reason = op.started_at or op.inserted_at, ENDS[op.kind]
    return any(
        life.end_is_estimate
        and life.end_reason is reason
        and life.ended_at is not None
        and life.started_at <= asked_at <= life.ended_at
        for life in known
    )


def _is_back(life: Lifetime, operations: Sequence[SeenOperation], seen: SeenInstance | None, read_at: datetime) -> bool:
    """Whether a run that was taken for ended is listed as running on."""
    return life.ended_at is not None and life.ended_at <= read_at and _runs_on_since(life.ended_at, operations, seen)


def _runs_on_since(moment: datetime, operations: Sequence[SeenOperation], seen: SeenInstance | None) -> bool:
    """A listed start, stop or suspension after `moment`, or a start operation, explains the listing otherwise."""
    if seen is None or not seen.status.bills_machine:
        return False
    stamps = (seen.last_started_at, seen.last_stopped_at, seen.last_suspended_at)
    if any(stamp is not None and stamp > moment for stamp in stamps):
        return False
    return not any(op.kind in _STARTS | _RESTARTS and op.inserted_at >= moment for op in operations)


def _fold(events: Sequence[_Event], seen: SeenInstance | None) -> list[Run]:
    runs: list[Run] = []
    weak_start: datetime | None = None
    for event in events:
        is_open = bool(runs) and runs[-1].ended_at is None
        if event.order is _Order.START:
            if event.weak:
                weak_start = None if is_open else (weak_start or event.at)
                continue
            if is_open and event.if_off:
                continue
            if is_open:
                runs[-1] = _missed_end(runs[-1], event.at, seen)
            weak_start = None
            runs.append(Run(event.at))
            continue
        if event.order is _Order.END and weak_start is not None and not is_open:
            runs.append(Run(weak_start))
            weak_start, is_open = None, True
        if is_open and event.of_start in (None, runs[-1].started_at):
            estimate = event.is_estimate or event.order is _Order.ESTIMATED_END
            runs[-1] = replace(runs[-1], ended_at=event.at, reason=event.reason, by=event.by, end_is_estimate=estimate)
    if weak_start is not None and seen is not None and seen.status.bills_machine:
        runs.append(Run(weak_start))
    return runs


def _missed_end(run: Run, next_start: datetime, seen: SeenInstance | None) -> Run:
    """The VM started again, so it stopped before; when and why, no operation tells any more."""
    stopped_at = seen.last_stopped_at if seen is not None else None
    at = stopped_at if stopped_at is not None and run.started_at <= stopped_at <= next_start else next_start
    return replace(run, ended_at=at, reason=EndReason.UNKNOWN, end_is_estimate=True)


def _settle_last(
    runs: list[Run], known: Sequence[Lifetime], seen: SeenInstance | None, read_at: datetime, absent: bool
) -> list[Run]:
    """End the last run where the VM is evidently not running and no operation told why."""
    if not runs or runs[-1].ended_at is not None:
        return runs
    last = runs[-1]
    if absent:
        ended_at = max(read_at, last.started_at)
        return [*runs[:-1], replace(last, ended_at=ended_at, reason=EndReason.UNKNOWN, end_is_estimate=True)]
    if seen is None or seen.status.bills_machine or seen.status is Status.UNKNOWN:
        return runs
    if last.started_at > read_at:
        return runs  # operations are read after the listing, which shows the VM as it was before this start
    suspended = seen.status in {Status.SUSPENDING, Status.SUSPENDED}
    stamp = seen.last_suspended_at if suspended else seen.last_stopped_at
    if stamp is None or stamp < last.started_at:
        if seen.status is Status.STOPPED and not any(life.started_at == last.started_at for life in known):
            # It ran before anybody looked, and nothing tells until when: no lifetime rather than a wild guess.
            return runs[:-1]
        stamp = read_at
    reason = EndReason.SUSPENDED if suspended else EndReason.UNKNOWN
    return [*runs[:-1], replace(last, ended_at=stamp, reason=reason, end_is_estimate=True)]
