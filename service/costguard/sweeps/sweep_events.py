"""The events of sweeps: one sentence each, for the audit log and messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costguard.jobs.rows import job_events
from costguard.model.event import Event, new_event
from costguard.model.job import Job
from costguard.model.money import Money, Priced, priced_text
from costguard.model.sweep import MemberStop, Sweep, SweepMember, SweepState
from costguard.model.words import count_text, list_text
from costguard.sweeps.members import words_of

_OVER = {
    SweepState.SUCCEEDED: ("SweepSucceeded", "finished"),
    SweepState.FAILED: ("SweepFailed", "failed"),
    SweepState.CANCELLED: ("SweepCancelled", "was cancelled"),
}


def submitted(sweep: Sweep, members: int, warnings: Sequence[str]) -> Event:
    limit = f", for at most {sweep.ceiling} together" if sweep.ceiling is not None else ""
    size = f"{count_text(members, 'job')} on {sweep.preset}, {sweep.at_once} at once"
    more = "".join(f" {warning}" for warning in warnings)
    text = f"A sweep, {sweep.title}, was submitted by {sweep.owner}: {size}{limit}.{more}"
    return _of(sweep, "SweepSubmitted", sweep.created_at, text, "submitted", sweep.owner, members=members)


def launched(sweep: Sweep, member: SweepMember, job: Job, now: datetime) -> Event:
    again = f", for the {_again(member.tries)} time" if member.tries > 1 else ""
    text = (
        f"A job, {job.title}, was launched for {job.spec.owner}{again}: member {member.number} of sweep {sweep.title}, "
        f"with {words_of(member.parameters)}."
    )
    data = {"sweep": sweep.id, "member": member.number, "try": member.tries}
    return job_events.of_job("JobSubmitted", job, now, text, "submitted", job.spec.owner, via=job.via, **data)


def cancel_asked(sweep: Sweep, by: str, reason: str, now: datetime) -> Event:
    text = f"{by} asked to cancel sweep {sweep.title}{f': {reason}' if reason else ''}."
    return _of(sweep, "SweepCancelAsked", now, text, f"cancel_asked/{sweep.round}", by, reason=reason)


def resumed(sweep: Sweep, by: str, numbers: Sequence[int], ceiling: Money | None, now: datetime) -> Event:
    """`sweep` as it was before."""
    limit = f", and its ceiling is now {ceiling}" if ceiling is not None and ceiling != sweep.ceiling else ""
    text = f"{by} resumed sweep {sweep.title}: {count_text(len(numbers), 'member')} to be launched{limit}."
    what = f"resumed/{sweep.round + 1}"
    return _of(sweep, "SweepResumed", now, text, what, by, members=list(numbers))


def stopped(sweep: Sweep, member: SweepMember, stop: MemberStop, now: datetime) -> Event:
    saves = f" About {stop.saved} is expected to be saved." if stop.saved is not None else ""
    text = f"Member {member.number} of sweep {sweep.title} ({stop.job_id}) is {stop.reason}.{saves}"
    named = {"member": member.number, "job": stop.job_id, "step": stop.step, "unit": stop.unit}
    saved = None if stop.saved is None else stop.saved.nanos
    return _of(sweep, "SweepMemberStopped", now, text, f"stopped/{stop.job_id}", "", saved_nanos=saved, **named)


def kept(sweep: Sweep, by: str, numbers: Sequence[int], now: datetime) -> Event:
    """Makes the event of members that are kept, or, without numbers, of the end of halving."""
    which = f"keeps {'member' if len(numbers) == 1 else 'members'} {list_text([str(one) for one in numbers])}"
    what = f"{which} of sweep {sweep.title} from being stopped" if numbers else f"ended halving in sweep {sweep.title}"
    key = "kept/" + ("all" if not numbers else ",".join(map(str, numbers)))
    return _of(sweep, "SweepMembersKept", now, f"{by} {what}.", key, by, members=list(numbers))


def over(sweep: Sweep, state: SweepState, reason: str, cost: Priced, now: datetime) -> Event:
    kind, verb = _OVER[state]
    spent = priced_text(cost, nothing="an amount without a price")
    text = (
        f"Sweep {sweep.title} {verb}: {reason if reason.endswith('.') else f'{reason}.'} It had cost {spent} by then."
    )
    by = sweep.cancel_asked_by if state is SweepState.CANCELLED else ""
    nanos = cost.amount.nanos if cost.whole else None
    return _of(sweep, kind, now, text, f"over/{sweep.round}", by, nanos=nanos)


def _again(tries: int) -> str:
    return {2: "second", 3: "third"}.get(tries, nth(tries))


def nth(number: int) -> str:
    """`2nd`, `11th`, `23rd`."""
    last = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def _of(sweep: Sweep, kind: str, at: datetime, text: str, what: str, actor: str = "", **data: object) -> Event:
    named = {"sweep": sweep.id, **data}
    return new_event(kind, at, text, sweep.id, what, project=sweep.project, actor=actor, data=named)
