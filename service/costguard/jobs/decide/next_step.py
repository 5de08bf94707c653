"""Decides what comes next for a job: each turn starts from what the ledger shows, whatever happened before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costguard.jobs.decide.actions import (
    AskAgain,
    CancelAfterCheckpoint,
    DeleteVm,
    EndAttempt,
    JobAction,
    JobDecision,
    LaunchAttempt,
    Proposal,
    StopVm,
)
from costguard.jobs.decide.attempts.live_attempt import live_run
from costguard.jobs.decide.attempts.moves import during, take_over
from costguard.jobs.decide.buy.choice import Chosen, Hopeless, choose
from costguard.jobs.decide.buy.placement import LaunchPlace
from costguard.jobs.decide.checkpoints.disk import holds_only_copy
from costguard.jobs.decide.gang.gang_step import gang_step
from costguard.jobs.decide.recovery.ended_runs import after_failures
from costguard.jobs.decide.recovery.ending import ending
from costguard.jobs.decide.recovery.verdict import verdict
from costguard.jobs.decide.view import (
    HOLD_AGAIN,
    UNSETTLED,
    JobContext,
    JobView,
    an_hour,
    earliest,
    is_due,
    may_any_write,
    place_of,
    present_run,
    wait_stably,
    without_vm,
)
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.job import JobState
from costguard.model.moments import clock_text


def next_vm(view: JobView, places: Sequence[LaunchPlace], context: JobContext) -> Proposal:
    """Launch it as soon as nothing of the one before can write into the same checkpoints."""
    if view.last is not None and holds_only_copy(view, view.last):
        return Proposal(
            without_vm(view), f"{_ended(view)}; its VM is being checked, because its disk holds what it saved"
        )
    if view.held_up:
        until = wait_stably(view, context.now + HOLD_AGAIN, context.now)
        return Proposal(without_vm(view), f"waits: {view.held_up}", next_at=until)
    if writes := may_any_write(view.attempts, view.interruptions, context):
        until_then = writes if isinstance(writes, datetime) else None
        return Proposal(without_vm(view), f"{_ended(view)}; {_WAITS_FOR_WRITER}", next_at=until_then)
    after = after_failures(view, context.terms)
    if after is not None and after > context.now:
        return Proposal(
            without_vm(view), f"{_ended(view)}; tried again at {clock_text(after, context.now)}", next_at=after
        )
    chosen = choose(view, places, context)
    if isinstance(chosen, Hopeless):
        return Proposal(JobState.FAILED, chosen.reason)
    if not isinstance(chosen, Chosen):
        return Proposal(without_vm(view), chosen.reason, next_at=chosen.until)
    place, number = chosen.place, view.next_number
    launch = LaunchAttempt(
        view.job.id,
        number,
        place.zone,
        place.provisioning_model,
        chosen.max_run,
        chosen.reason,
        place.rate,
        address=place.address,
    )
    asks = f"requesting a VM in {place.zone} ({place.provisioning_model.in_words}, {an_hour(place.rate)})"
    before = _ended(view)
    return Proposal(JobState.PROVISIONING, f"{before}; {asks}" if before else asks, (launch,))


def _ended(view: JobView) -> str:
    return view.last.attempt.reason if view.last is not None else ""


_WAITS_FOR_WRITER = "the next VM is requested once nothing on this one can write any more"


def decide(view: JobView, places: Sequence[LaunchPlace], context: JobContext) -> JobDecision:
    """The job's state and reason, and what is done for it now. The same view gives the same decision.

    An end is written down first, and judged by the next decision, so that a crash in between loses nothing: right
    after an `EndAttempt` or `RestAttempt` was carried out it is worth deciding again. `places` are only looked at
    where no attempt is open.
    """
    last = view.last
    if view.job.state.is_over:
        step = Proposal(view.job.state, view.job.reason, _loose_end(view, context))
    elif (cancel := cancel_due(view)) is not None:
        step = Proposal(view.job.state, cancel.reason, (cancel,))
    elif view.job.is_gang:
        step = gang_step(view, places, context)
    elif last is not None and last.attempt.is_open:
        step = during(view, places, context, live_run(view, last, context))
    elif (final := verdict(view, context)) is not None:
        step = Proposal(*final)
    elif view.standby is not None:
        step = take_over(view, view.standby, context)
    else:
        step = next_vm(view, places, context)
    deletes, delete_at = _deletes(view, context)
    actions = (*step.actions, *_overtaken(view, context), *deletes)
    return JobDecision(
        view.job.id, step.state, step.reason, actions, context.now if actions else earliest(step.next_at, delete_at)
    )


_UNKNOWN = frozenset({AttemptState.INTENDED, AttemptState.ASKED})


def _loose_end(view: JobView, context: JobContext) -> tuple[JobAction, ...]:
    """A job that is over leaves no attempt open: its VM would bill for nobody."""
    every = (*view.attempts, *([view.standby] if view.standby is not None else []))
    actions: list[JobAction] = []
    for attempt in (seen.attempt for seen in every if seen.attempt.is_open):
        if attempt.state not in _UNKNOWN:
            actions.append(EndAttempt(attempt.id, Outcome.CANCELLED, f"its job is over: {view.job.reason}"))
        elif is_due(attempt.try_after, context.now):
            actions.append(AskAgain(attempt.id, "its job is over"))
    return tuple(actions)


def _overtaken(view: JobView, context: JobContext) -> tuple[JobAction, ...]:
    """The ends of attempts before the last one that are open still: a restored database may not know of them."""
    actions: list[JobAction] = []
    if view.last is None or view.job.state.is_over:
        return ()
    present = view.last.attempt
    for seen in view.attempts:
        attempt = seen.attempt
        if not attempt.is_open or _is_of_present(attempt, present):
            continue
        if attempt.state in UNSETTLED:
            actions += [AskAgain(attempt.id, "another attempt runs")] if is_due(attempt.try_after, context.now) else []
            continue
        end = ending(present_run(seen, view.interruptions), view.job, context)
        if end is not None and end.due_at <= context.now:
            actions.append(EndAttempt(attempt.id, end.outcome, end.reason))
    return tuple(actions)


def _is_of_present(attempt: Attempt, present: Attempt) -> bool:
    """Says whether it is the last attempt, or in a gang of the same formation."""
    return attempt.id == present.id or (attempt.formation != 0 and attempt.formation == present.formation)


def _deletes(view: JobView, context: JobContext) -> tuple[tuple[JobAction, ...], datetime | None]:
    """Deletes the VM of every attempt that ended, where it may still be there; returns also when one is tried again.

    A VM whose disk holds the only copy of what was saved is stopped and kept instead.
    """
    due: list[JobAction] = []
    later: list[datetime | None] = []
    for seen in view.attempts:
        attempt, keeps = seen.attempt, holds_only_copy(view, seen)
        if attempt.state is not AttemptState.ENDING and (keeps or attempt.state is not AttemptState.KEPT):
            continue
        if not is_due(attempt.try_after, context.now):
            later.append(attempt.try_after)
        elif keeps:
            due.append(StopVm(attempt.id, f"its disk in {attempt.zone} holds the only copy of what it saved"))
        else:
            due.append(DeleteVm(attempt.id, f"its attempt in {place_of(attempt)} has ended: {attempt.reason}"))
    return tuple(due), earliest(*later)


_IDLE = frozenset({AttemptState.RESTING, AttemptState.WAITING})
_AT_WORK = frozenset({AttemptState.BOOTING, AttemptState.RUNNING})


def cancel_due(view: JobView) -> CancelAfterCheckpoint | None:
    """Once a checkpoint was written after the request, or where nothing runs that could write one."""
    job, last, seen = view.job, view.last, view.checkpoint
    if job.cancel_after_at is None or job.cancel_asked_at is not None:
        return None
    by = job.cancel_after_by
    if last is None or (not last.attempt.is_open) or last.attempt.state in _IDLE:
        return CancelAfterCheckpoint(
            job.id, by, f"{by} cancelled it after its next checkpoint, and nothing of it runs now."
        )
    if last.attempt.state not in _AT_WORK or seen is None or seen.error or seen.written_at is None:
        return None
    if seen.written_at <= job.cancel_after_at:
        return None
    which = f"step {seen.step:,}" if seen.step is not None else seen.resume_from
    return CancelAfterCheckpoint(job.id, by, f"{by} cancelled it after its next checkpoint, and {which} is saved.")
