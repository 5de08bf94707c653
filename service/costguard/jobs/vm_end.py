"""What the end of a VM means for the attempt that it was made for."""

from __future__ import annotations

from datetime import datetime

from costguard.jobs.view import VmStanding
from costguard.jobs.words import clock, place_of, span
from costguard.ledger.owner import is_person
from costguard.model.attempt import Attempt, Outcome
from costguard.model.lifetime import EndReason

_VERBS = {EndReason.STOPPED: "stopped", EndReason.SUSPENDED: "suspended", EndReason.DELETED: "deleted"}


def vm_end(vm: VmStanding, attempt: Attempt, now: datetime) -> tuple[Outcome, str]:
    """The outcome, and a sentence about it.

    REMOVED is by a person, who wants it gone. What a service account did, or nobody known, is LOST: work goes on.
    """
    place = place_of(attempt)
    match vm.end_reason:
        case EndReason.PREEMPTED:
            return Outcome.PREEMPTED, f"preempted in {place}"
        case EndReason.HOST_ERROR:
            return Outcome.HOST_ERROR, f"the host of its VM in {place} failed"
        case EndReason.HOST_MAINTENANCE:
            return Outcome.HOST_ERROR, f"its VM in {place} was ended for maintenance of its host"
        case EndReason.RUN_TIME_LIMIT:
            return Outcome.TIME_LIMIT, f"its VM reached its limit of {span(attempt.max_run)}"
        case EndReason.GUEST_SHUTDOWN:
            return Outcome.LOST, f"its VM in {place} was shut down from within"
        case EndReason.RECREATED:
            return Outcome.LOST, f"its VM in {place} was recreated by a managed instance group"
    verb = _VERBS.get(vm.end_reason, "ended") if vm.end_reason is not None else "ended"
    moment = vm.ended_at or vm.gone_at
    when = f" at {clock(moment, now)}" if moment is not None else ""
    if verb != "ended" and is_person(vm.ended_by):
        return Outcome.REMOVED, f"its VM in {place} was {verb} by {vm.ended_by}{when}"
    if vm.ended_by:
        return Outcome.LOST, f"its VM in {place} was {verb} by {vm.ended_by}{when}"
    return (
        Outcome.LOST,
        f"its VM in {place} {'was ' + verb if verb != 'ended' else verb}{when}, and nothing says by whom",
    )
