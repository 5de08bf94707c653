"""Finds when a VM ran: from operations, its listing, and the ledger. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum

from costguard.model.instance import SeenInstance, Status
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.observation import OperationStatus, SeenOperation

# Google writes lastStartTimestamp as the operation ends, not at the same instant.
SAME_START = timedelta(seconds=10)
# Starting a VM that runs, or stopping one that is off, does nothing and is done without an error in under a second (a
# recorded scheduler's stops took 0.4 to 0.7 s); real ones take longer (of 239 recorded stops half took 49 s).
_QUICK = timedelta(seconds=2)

# Recorded: repair operation 17:49:14.1, lastStopTimestamp 17:50:08.1, lastStartTimestamp 17:50:20.5.
_REPAIR_STOPS_AFTER = timedelta(seconds=54)
_LONGEST_REPAIR = timedelta(minutes=3)

STARTS = frozenset({"insert", "start", "resume", "startWithEncryptionKey"})
RESTARTS = frozenset({"compute.instances.automaticRestart"})  # says that a start was begun, not when the VM ran again

AT_ITS_TIME = "compute.instances.deferredDelete"  # it is deleted, as its time is over
ENDS = {
    "stop": EndReason.STOPPED,
    "suspend": EndReason.SUSPENDED,
    "delete": EndReason.DELETED,
    "compute.instances.preempted": EndReason.PREEMPTED,
    "compute.instances.hostError": EndReason.HOST_ERROR,
    "compute.instances.terminateOnHostMaintenance": EndReason.HOST_MAINTENANCE,
    "compute.instances.guestTerminate": EndReason.GUEST_SHUTDOWN,
    "compute.instances.deferredStop": EndReason.RUN_TIME_LIMIT,
    AT_ITS_TIME: EndReason.RUN_TIME_LIMIT,
    "compute.instances.scheduledStop": EndReason.STOPPED,
    # A managed instance group makes the VM again, mostly under the same id: see `_at_end_of_repair`.
    "compute.instances.repair.recreateInstance": EndReason.RECREATED,
}
DELETES = frozenset({"delete", AT_ITS_TIME})


@dataclass(frozen=True, slots=True)
class Run:
    """A continuous billed run. An estimated end is the latest moment that it can have ended."""

    started_at: datetime
    ended_at: datetime | None = None
    reason: EndReason | None = None
    by: str = ""
    end_is_estimate: bool = False


class _Order(IntEnum):
    """The order at one instant: an end that was only estimated, then starts, then ends that an operation reports."""

    ESTIMATED_END = 0
    START = 1
    END = 2


@dataclass(frozen=True, slots=True)
class _Event:
    at: datetime
    order: _Order
    weak: bool = False  # a start whose true moment a later event may show
    if_off: bool = False  # a start that does nothing where the VM runs
    of_start: datetime | None = None  # the one run that an estimated end belongs to
    reason: EndReason | None = None
    by: str = ""
    is_estimate: bool = False
    begun_before: datetime | None = None  # an end of a run that began by then, and of no later one


def runs_of(
    lifetimes: Sequence[Lifetime],
    operations: Sequence[SeenOperation],
    seen: SeenInstance | None,
    read_at: datetime,
    absent: bool = False,
) -> list[Run]:
    """Every run that the evidence tells, oldest first; the same evidence always gives the same runs.

    `operations` are all that were ever recorded for this VM. `seen` is its listing at `read_at`; `absent`
    says that it is confirmed to be gone. Ends told by operations are derived again each time, so that an
    operation that fails after all takes its end back; only starts and estimated ends are remembered.
    """
    good = [op for op in operations if op.error_code is None]
    believed = [op for op in good if not (_did_nothing(op, good, seen, read_at) or _was_graceful(op, lifetimes, seen))]
    ends = [event for op in believed if (event := _end(op, seen)) is not None]
    struck = _struck_starts(believed, ends)
    starts, late = _starts(lifetimes, believed, seen, struck)
    begun = {*late, *struck.values()}
    ends = [
        event if event.at in begun else _at_end_of_repair(event, starts, lifetimes, seen, read_at) for event in ends
    ]
    # An end inside a start that the ledger dates later ends that start, and not before it began.
    events = starts + [replace(event, at=late.get(event.at, event.at)) for event in ends]
    events += (
        _Event(life.ended_at, _Order.ESTIMATED_END, of_start=life.started_at, reason=life.end_reason, by=life.ended_by)
        for life in lifetimes
        if life.ended_at is not None and life.end_is_estimate and not _is_back(life, good, seen, read_at)
    )
    runs = _fold(sorted(events, key=lambda e: (e.at, e.order)), seen)
    return _settle_last(runs, lifetimes, seen, read_at, absent)


_BY_GOOGLE = frozenset({EndReason.HOST_ERROR, EndReason.HOST_MAINTENANCE, EndReason.RECREATED})
_GOOGLES = ("system", "@cloudservices.gserviceaccount.com")  # in whose names Google and managed groups act


def ages_of(runs: Sequence[Run], operations: Sequence[SeenOperation]) -> dict[datetime, datetime | None]:
    """Returns, by each run's start, when a person or a program last started the VM; None: they began this very run.

    A host error, maintenance or a group's repair ends a run, and Google begins the next by itself: nobody has cared for
    the VM meanwhile, so its age goes on.
    """
    started = [op for op in operations if op.kind in STARTS and _is_done(op) and not op.user.endswith(_GOOGLES)]
    ages: dict[datetime, datetime | None] = {}
    for place, run in enumerate(runs):
        before = runs[place - 1] if place else None
        is_again = before is not None and before.ended_at is not None and before.reason in _BY_GOOGLE
        if before is None or not is_again or any(_is_between(op, before, run) for op in started):
            ages[run.started_at] = None
        else:
            ages[run.started_at] = ages[before.started_at] or before.started_at
    return ages


def _is_between(op: SeenOperation, before: Run, after: Run) -> bool:
    assert op.ended_at is not None  # it is done
    assert before.ended_at is not None  # another run began since
    return before.ended_at < op.ended_at <= after.started_at + SAME_START


def created_by(operations: Iterable[SeenOperation]) -> str:
    """The account whose insert operation made this VM; empty when that operation was never read."""
    # An insert fails when the VM is preempted while it comes up; the VM is there all the same.
    return next((op.user for op in operations if op.kind == "insert"), "")


def deleted_at(operations: Sequence[SeenOperation]) -> datetime | None:
    """When a delete operation finished, unless the VM was made again after it under the same id."""
    made_at = max((op.inserted_at for op in operations if op.kind == "insert" and op.error_code is None), default=None)
    deletes = (op.ended_at for op in operations if op.kind in DELETES and _is_done(op))
    return next((at for at in deletes if at is not None and (made_at is None or at > made_at)), None)


def _is_done(op: SeenOperation) -> bool:
    return op.status is OperationStatus.DONE and op.error_code is None and op.ended_at is not None


def _struck_starts(operations: Sequence[SeenOperation], ends: Sequence[_Event]) -> dict[datetime, datetime]:
    """Starts that an end fell inside, by when their operations ended: the VM cannot have run longer than to that end.

    Two of three recorded preemptions of a scheduled Spot VM fell inside its start operation. A group's repair stops the
    VM later: inside a start that was done at once it fell on a VM that ran.
    """
    every = sorted(end.at for end in ends)
    at_once = sorted(end.at for end in ends if end.reason is not EndReason.RECREATED)
    struck: dict[datetime, datetime] = {}
    for op in operations:
        if op.kind in STARTS and _is_done(op) and op.ended_at is not None:
            moments = at_once if _was_quick(op) else every
            place = bisect_left(moments, op.started_at or op.inserted_at)
            if place < len(moments) and moments[place] < op.ended_at:
                struck[op.ended_at] = moments[place]
    return struck


def _starts(
    lifetimes: Sequence[Lifetime],
    operations: Sequence[SeenOperation],
    seen: SeenInstance | None,
    struck: Mapping[datetime, datetime],
) -> tuple[list[_Event], dict[datetime, datetime]]:
    """The starts, and for each end inside a start that is dated after it, that start's moment.

    Starts told several times are one start: the ledger's own moment wins, then the VM's, then the operation's.
    Two operations are two starts, however close: a VM can shut down and be up again within ten seconds.
    """
    starts = {op.ended_at: op for op in operations if op.kind in STARTS and _is_done(op) and op.ended_at is not None}
    reported = sorted(starts)
    listed: list[datetime] = []
    if seen is not None:
        # Answers from before 2015 lack lastStartTimestamp; such a VM ran since it was made, where nothing says more.
        made_at = seen.created_at if seen.status.bills_machine and not starts else None
        started_at = seen.last_started_at or made_at
        listed += [started_at] if started_at is not None else []
    in_ledger, ledger_alone = _paired([life.started_at for life in lifetimes], reported)
    # The ledger may hold a start by the moment of the end inside it, which can be long before the operation's own.
    for ended_at, struck_at in struck.items():
        if struck_at in ledger_alone and ended_at not in in_ledger:
            in_ledger[ended_at] = struck_at
            ledger_alone.remove(struck_at)
    in_listing, listed_alone = _paired(listed, reported)
    listed_alone = _paired(listed_alone, sorted(ledger_alone))[1]
    events = [_Event(moment, _Order.START) for moment in ledger_alone + listed_alone]
    late: dict[datetime, datetime] = {}
    for moment in reported:
        better = in_ledger.get(moment) or in_listing.get(moment)
        started_at, end_at = better or moment, struck.get(moment)
        if end_at is not None and started_at > end_at:
            if moment in in_ledger:
                late[end_at] = started_at
            else:
                started_at = end_at
        events.append(_Event(started_at, _Order.START, if_off=better is None and _was_quick(starts[moment])))
    events += [
        _Event(op.ended_at or op.inserted_at, _Order.START, weak=True) for op in operations if op.kind in RESTARTS
    ]
    return events, late


def _was_quick(op: SeenOperation) -> bool:
    return (
        op.kind != "insert"
        and op.started_at is not None
        and op.ended_at is not None
        and op.ended_at - op.started_at < _QUICK
    )


def _paired(
    moments: Sequence[datetime], reported: Sequence[datetime]
) -> tuple[dict[datetime, datetime], list[datetime]]:
    """Pairs `moments` with `reported` (sorted), the closest first; returns also moments without a pair."""
    near = sorted(
        (abs(moment - other), other, moment)
        for moment in moments
        for other in reported[bisect_left(reported, moment - SAME_START) : bisect_right(reported, moment + SAME_START)]
    )
    pairs: dict[datetime, datetime] = {}
    taken: set[datetime] = set()
    for _, other, moment in near:
        if other not in pairs and moment not in taken:
            pairs[other] = moment
            taken.add(moment)
    return pairs, [moment for moment in moments if moment not in taken]


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
        stopped_at, done_at = seen.last_stopped_at, op.ended_at or at
        # The stamp is written just before the operation ends; a later one is that of another stop.
        at = stopped_at if stopped_at is not None and at <= stopped_at <= done_at + SAME_START else done_at
    begun_before = at if reason is EndReason.RECREATED else None
    return _Event(at, _Order.END, reason=reason, by=op.user, is_estimate=is_estimate, begun_before=begun_before)


def _at_end_of_repair(
    event: _Event,
    starts: Sequence[_Event],
    lifetimes: Sequence[Lifetime],
    seen: SeenInstance | None,
    read_at: datetime,
) -> _Event:
    """A group's repair is an operation of one moment, and its VM is stopped after it, as its stop stamp tells.

    Where no stamp of it is left, what the ledger holds counts, else the recorded 54 s; the new run is never later. A
    start that was done at once found the VM running still, and begins none.
    """
    if event.reason is not EndReason.RECREATED:
        return event
    latest = event.at + _LONGEST_REPAIR
    stamps = [seen.last_stopped_at] if seen is not None else []
    stamps += [life.ended_at for life in lifetimes if life.end_reason is EndReason.RECREATED]
    stamped_at = next((stamp for stamp in stamps if stamp is not None and event.at <= stamp <= latest), None)
    at = stamped_at or max(event.at, min(event.at + _REPAIR_STOPS_AFTER, read_at))
    return replace(event, at=min([at, *(start.at for start in starts if start.at > event.at and not start.if_off)]))


def _did_nothing(
    op: SeenOperation, operations: Sequence[SeenOperation], seen: SeenInstance | None, read_at: datetime
) -> bool:
    """Says whether an end operation, done before the listing, evidently ended nothing.

    Either the VM is listed as running on, or it was off already: a real stop writes the stop stamp as it ends.
    """
    if op.kind not in ENDS or not _is_done(op) or op.ended_at is None:
        return False
    began_at = op.started_at or op.inserted_at
    if ENDS[op.kind] is EndReason.RECREATED and _runs_on_since(began_at, operations, seen):
        return True  # or has not stopped it yet: see `_at_end_of_repair`
    if op.ended_at >= read_at:
        return False
    stopped_at = seen.last_stopped_at if seen is not None else None
    if op.kind == "stop" and _was_quick(op) and stopped_at is not None and stopped_at < began_at:
        return True
    # Inside a start, the VM's start stamp follows the event, and the VM still does not run.
    around = [start.ended_at for start in operations if start.kind in STARTS and _is_within(began_at, start)]
    since = max([began_at, *(ended_at + SAME_START for ended_at in around if ended_at is not None)])
    return since < read_at and _runs_on_since(since, operations, seen)


def _is_within(moment: datetime, op: SeenOperation) -> bool:
    return op.ended_at is not None and (op.started_at or op.inserted_at) <= moment < op.ended_at


def _was_graceful(op: SeenOperation, lifetimes: Sequence[Lifetime], seen: SeenInstance | None) -> bool:
    """Says whether the ledger holds when this stop's grace was over, which nothing tells once the VM is gone."""
    if op.kind not in {"stop", "delete"} or (seen is not None and seen.graceful_stop):
        return False
    asked_at, reason = op.started_at or op.inserted_at, ENDS[op.kind]
    return any(
        life.end_is_estimate
        and life.end_reason is reason
        and life.ended_at is not None
        and life.started_at <= asked_at <= life.ended_at
        for life in lifetimes
    )


def _is_back(life: Lifetime, operations: Sequence[SeenOperation], seen: SeenInstance | None, read_at: datetime) -> bool:
    """Says whether a run that was taken for ended is listed as running on."""
    return life.ended_at is not None and life.ended_at <= read_at and _runs_on_since(life.ended_at, operations, seen)


def _runs_on_since(moment: datetime, operations: Sequence[SeenOperation], seen: SeenInstance | None) -> bool:
    """A listed start, stop or suspension after `moment`, or a start operation, explains the listing otherwise."""
    if seen is None or not seen.status.bills_machine:
        return False
    stamps = (seen.last_started_at, seen.last_stopped_at, seen.last_suspended_at)
    if any(stamp is not None and stamp > moment for stamp in stamps):
        return False
    return not any(op.kind in STARTS | RESTARTS and op.inserted_at >= moment for op in operations)


def _fold(events: Sequence[_Event], seen: SeenInstance | None) -> list[Run]:
    runs: list[Run] = []
    weak_start: datetime | None = None
    for event in events:
        is_open = bool(runs) and runs[-1].ended_at is None
        if event.order is _Order.START:
            if event.weak:
                weak_start = None if is_open else (weak_start or event.at)
                continue
            if event.if_off and weak_start is not None:  # it found the VM running: the restart had come to its end
                runs.append(Run(weak_start))
                weak_start, is_open = None, True
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
        is_its = is_open and (event.begun_before is None or runs[-1].started_at <= event.begun_before)
        if is_its and event.of_start in (None, runs[-1].started_at):
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
    runs: list[Run], lifetimes: Sequence[Lifetime], seen: SeenInstance | None, read_at: datetime, absent: bool
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
        if seen.status is Status.STOPPED and not any(life.started_at == last.started_at for life in lifetimes):
            # It ran before anybody looked, and nothing tells until when: no lifetime rather than a wild guess.
            return runs[:-1]
        stamp = read_at
    reason = EndReason.SUSPENDED if suspended else EndReason.UNKNOWN
    return [*runs[:-1], replace(last, ended_at=stamp, reason=reason, end_is_estimate=True)]
