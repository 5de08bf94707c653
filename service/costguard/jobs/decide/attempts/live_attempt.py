"""Decides about an attempt whose outcome is not known yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from costguard.jobs.decide.actions import (
    AskAgain,
    EndAttempt,
    Proposal,
    RestartVm,
    RestAttempt,
    StopVm,
    TellCommandToStop,
)
from costguard.jobs.decide.attempts.resting import can_start, goes_down_by, is_up_still
from costguard.jobs.decide.attempts.waiting import given_up_at, look_at_waiting, wait_of, waits_text
from costguard.jobs.decide.checkpoints.disk import nothing_saved, saves_on_disk
from costguard.jobs.decide.limits.ceiling import (
    DEADLINE_NOTICE,
    LEAST_RUN,
    ceiling_text,
    is_held_by_sweep,
    is_short_of_vm_time,
    is_stopped_by_deadline,
    out_of_vm_time_at,
    stop_at,
    time_left,
    vm_hours_text,
)
from costguard.jobs.decide.limits.on_reservation import is_last_run, limit_of, limit_text
from costguard.jobs.decide.recovery.ended_runs import after_failures
from costguard.jobs.decide.recovery.ending import RunEnd, ending, is_unheard
from costguard.jobs.decide.recovery.verdict import came_to_its_limit_in_vain, too_many, would_repeat
from costguard.jobs.decide.view import (
    HOLD_AGAIN,
    UNSETTLED,
    AttemptView,
    JobContext,
    JobView,
    PresentRun,
    earliest,
    has_ended,
    is_due,
    place_of,
    present_run,
    wait_stably,
    without_vm,
)
from costguard.model.attempt import (
    HUNG,
    PHASES,
    PUBLISHING,
    VM_HOURS,
    Attempt,
    AttemptState,
    Interruption,
    Notice,
    Outcome,
)
from costguard.model.duration import hours_text, span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobKind, JobState, OnHang, WhenLate
from costguard.model.moments import clock_text

_ALLOWANCE = timedelta(minutes=2)  # for the agent to hear of it, and for what its cost does not hold yet
_PAUSE_WAIT = timedelta(minutes=30)  # for a checkpoint, once a budget is spent

_INTERRUPTS = frozenset(
    {
        Outcome.PREEMPTED,
        Outcome.HOST_ERROR,
        Outcome.TIME_LIMIT,
        Outcome.CRASHED,
        Outcome.NOT_PUBLISHED,
        Outcome.LOST,
        Outcome.MOVED,
    }
)
_RESTS = _INTERRUPTS | {Outcome.NOT_STARTED}


def running(view: JobView, run: PresentRun, context: JobContext) -> Proposal:
    end = ending(run, view.job, context)
    if end is not None and end.due_at <= context.now:
        return _ended(view, run, end, context)
    is_up = view.job.spec.kind is JobKind.DEV or works(run)
    state = JobState.RUNNING if is_up else JobState.PROVISIONING
    due = end.due_at if end is not None else None
    if run.attempt.stop_asked_at is not None:
        at = clock_text(run.attempt.stop_asked_at, context.now)
        reason = f"the command in {place_of(run.attempt)} was asked to stop at {at}"
        return Proposal(state, reason, next_at=due)
    stop = _stop(view, run, context)
    if isinstance(stop, EndAttempt | TellCommandToStop):
        return Proposal(state, stop.reason, (stop,))
    deadline = view.job.spec.deadline
    to_come = deadline if deadline is not None and deadline > context.now else None
    next_at = earliest(due, stop, to_come)
    next_at = wait_stably(view, next_at, context.now) if next_at is not None else None
    return Proposal(state, _how_it_stands(view, run, context), next_at=next_at)


def works(run: PresentRun) -> bool:
    return run.attempt.state is AttemptState.RUNNING or run.agent.started_at is not None


def _ended(view: JobView, run: PresentRun, end: RunEnd, context: JobContext) -> Proposal:
    attempt, job = run.attempt, view.job
    is_for_good = end.outcome is Outcome.TIME_LIMIT and is_last_run(view, run, context.now)
    interruption: Interruption | None = None
    if end.outcome in _RESTS and not is_for_good and job.spec.kind is JobKind.TRAINING:
        noticed = (run.agent.noticed_at if end.noticed_by is Notice.NOTICE else None) or end.due_at
        interruption = Interruption(
            attempt.id,
            job.id,
            run.number,
            end.outcome,
            end.happened_at,
            noticed,
            end.noticed_by,
            started_at=run.agent.started_at,
        )
    if interruption is not None and _rests(view, run, end, interruption, context):
        return Proposal(JobState.RECOVERING, end.reason, (RestAttempt(attempt.id, end.reason, interruption),))
    # Only their interruptions distinguish the runs of one VM.
    interruption = interruption if end.outcome in _INTERRUPTS or saves_on_disk(job) else None
    action = EndAttempt(attempt.id, end.outcome, end.reason, interruption)
    return Proposal(JobState.RECOVERING if interruption is not None else job.state, end.reason, (action,))


def _rests(view: JobView, run: PresentRun, end: RunEnd, interruption: Interruption, context: JobContext) -> bool:
    """Says whether the same VM is started again, since its disk holds the checkpoints and another run is still
    allowed.
    """
    job, seen = view.job, view.last
    if seen is None or not saves_on_disk(job) or job.cancel_asked_at is not None:
        return False
    if run.vm is not None and run.vm.gone_at is not None:
        return False
    ended = replace(seen.attempt, outcome=end.outcome, reason=end.reason, ended_at=context.now)
    over = replace(seen, attempt=ended)
    after = replace(view, attempts=(*view.attempts[:-1], over), interruptions=(*view.interruptions, interruption))
    if end.outcome is Outcome.NOT_STARTED and nothing_saved(view, replace(over, attempt=ended)):
        return False  # there is nothing to lose: another VM, perhaps elsewhere, may do better
    if would_repeat(after, ended, context.terms) or came_to_its_limit_in_vain(after):
        return False
    return not too_many(after, context.terms)


def _stop(view: JobView, run: PresentRun, context: JobContext) -> EndAttempt | TellCommandToStop | datetime | None:
    """The stop that a user or a limit requires now, or the moment from which one will."""
    attempt, job = run.attempt, view.job
    if job.cancel_asked_at is not None:
        return notice_or_end(run, job.spec.kind, "cancel", Outcome.CANCELLED, job.cancel_text)
    at = stop_at(view, attempt, context.terms.cancel_grace + _ALLOWANCE, context.now)
    if at is not None and at <= context.now:
        reason = f"{ceiling_text(view)} is reached: {view.spent} are spent"
        return notice_or_end(run, job.spec.kind, "ceiling", Outcome.TIME_LIMIT, reason)
    used = out_of_vm_time_at(view, context.terms.cancel_grace + _ALLOWANCE, context.now)
    if used is not None and used <= context.now:
        reason = f"{vm_hours_text(view)} is reached: its VMs ran for {hours_text(view.vm_time)}"
        return notice_or_end(run, job.spec.kind, VM_HOURS, Outcome.TIME_LIMIT, reason)
    late = job.spec.deadline if job.spec.when_late is WhenLate.STOP else None
    if late is not None and is_stopped_by_deadline(job, context.now):
        reason = f"its deadline of {clock_text(late, context.now)} has come"
        return notice_or_end(run, job.spec.kind, "deadline", Outcome.TIME_LIMIT, reason)
    limit = limit_of(view, run, context.terms.cancel_grace + _ALLOWANCE)
    if limit is not None and limit <= context.now:
        return notice_or_end(run, job.spec.kind, "limit", Outcome.TIME_LIMIT, limit_text(view, run, context.now))
    pause = _pause_at(view, run, context)
    if pause is not None and pause <= context.now:
        return notice_or_end(run, job.spec.kind, "pause", Outcome.PAUSED, f"stopped for now: {view.pause}")
    if run.agent.hang is not None and job.spec.on_hang is OnHang.RESTART and run.agent.exit is None:
        since = clock_text(run.agent.hang.since, context.now)
        reason = f"its command in {place_of(attempt)} has made no progress since {since}, and is stopped to run again"
        return TellCommandToStop(attempt.id, HUNG, reason)
    return earliest(at, used, pause, limit, late - DEADLINE_NOTICE if late is not None else None)


def notice_or_end(
    run: PresentRun, kind: JobKind, why: str, outcome: Outcome, reason: str
) -> EndAttempt | TellCommandToStop:
    """An attempt without a running command ends at once."""
    if kind is JobKind.DEV or run.agent.exit is not None or not works(run):
        return EndAttempt(run.attempt.id, outcome, reason)
    return TellCommandToStop(run.attempt.id, why, f"{reason}; the command gets time to save first")


def _pause_at(view: JobView, run: PresentRun, context: JobContext) -> datetime | None:
    """Returns when a VM may be stopped for a budget: once something newer was saved, or half an hour later.

    Never where that would lose work: checkpoints on its own disk, or a development VM.
    """
    plan = view.job.spec.checkpoint
    is_spot = run.attempt.provisioning_model is ProvisioningModel.SPOT
    if not view.pause or not is_spot or view.job.spec.kind is JobKind.DEV or (plan is not None and plan.is_on_disk):
        return None
    if plan is None or view.pause_at is None:
        return context.now
    saved = view.checkpoint.written_at if view.checkpoint is not None else None
    return context.now if saved is not None and saved > view.pause_at else view.pause_at + _PAUSE_WAIT


def _how_it_stands(view: JobView, run: PresentRun, context: JobContext) -> str:
    attempt, place = run.attempt, place_of(run.attempt)
    agent = run.agent
    if run.vm is not None and not run.vm.is_known:
        return f"unknown: {attempt.zone} could not be read, so the state of its VM is not known"
    if view.job.spec.kind is JobKind.DEV:
        if has_ended(run.vm):
            return f"its VM in {place} is stopped, and its disk bills: start it again, or cancel it to delete both"
        return f"its VM in {place} is running"
    if agent.exit is not None:
        return f"the command in {place} has ended; waiting for Google to say why its VM did"
    if agent.noticed_at is not None:
        announced_at = clock_text(agent.noticed_at, context.now)
        return f"Google is preempting its VM in {place}, as announced at {announced_at}; the command is saving"
    if context.all_silent and agent.at is not None and context.now - agent.at > context.terms.silence:
        since = clock_text(agent.at, context.now)
        return f"no agent has reported, this one not since {since}: check that VMs can reach Costguard"
    if is_unheard(run, context) and context.generation.began_at is not None:
        began = clock_text(context.generation.began_at, context.now)
        return f"its VM in {place} has not reported since the database was restored at {began}; it is left running"
    if works(run):
        since = f" since {clock_text(agent.started_at, context.now)}" if agent.started_at is not None else ""
        if agent.phase == PUBLISHING:
            return f"its command in {place} has succeeded, and its VM is {PHASES[PUBLISHING]}"
        return f"runs in {place}{since}{_resumed(run)}{_hung(run, context)}{_late(view, context)}"
    if agent.at is not None:
        return f"its VM in {place} is up and {PHASES.get(agent.phase, agent.phase) or 'preparing the command'}"
    return f"its VM in {place} is booting"


def _resumed(run: PresentRun) -> str:
    attempt = run.attempt
    if attempt.resume_step is not None:
        return f", resumed from step {attempt.resume_step}"
    return ", resumed from its checkpoint" if attempt.resume_from or attempt.restarts else ""


def _hung(run: PresentRun, context: JobContext) -> str:
    hang = run.agent.hang
    return "" if hang is None else f"; it seems to hang: no progress since {clock_text(hang.since, context.now)}"


def _late(view: JobView, context: JobContext) -> str:
    deadline = view.job.spec.deadline
    if deadline is None or deadline > context.now:
        return ""
    return f"; its deadline of {clock_text(deadline, context.now)} has passed"


def live_run(view: JobView, seen: AttemptView, context: JobContext) -> Proposal:
    """The unknown is settled before anything else."""
    attempt = seen.attempt
    if attempt.state in UNSETTLED:
        return ask(view, seen, context)
    if attempt.state is AttemptState.WAITING:
        return _waiting(view, seen, context)
    if attempt.state is AttemptState.RESTING:
        return _resting(view, seen, context)
    return running(view, present_run(seen, view.interruptions), context)


def ask(view: JobView, seen: AttemptView, context: JobContext) -> Proposal:
    attempt = seen.attempt
    place = place_of(attempt)
    if attempt.state is AttemptState.INTENDED:
        reason = f"requesting a VM in {place}"
    elif attempt.state is AttemptState.ASKED:
        reason = f"Google is creating its VM in {place}"
    else:
        reason = f"restarting its VM in {place}"
    if attempt.error:
        reason = f"{reason}; the last error was: {attempt.error}"
    if view.job.cancel_asked_at is not None:
        reason = f"is cancelled once it is known whether it has a VM: {reason}"
    if not is_due(attempt.try_after, context.now):
        return Proposal(JobState.PROVISIONING, reason, next_at=attempt.try_after)
    only_looks = bool(view.unknown) and attempt.state is AttemptState.INTENDED
    return Proposal(JobState.PROVISIONING, reason, (AskAgain(attempt.id, reason, only_looks),))


def _waiting(view: JobView, seen: AttemptView, context: JobContext) -> Proposal:
    """A request of flex-start that waits is looked at now and then, and given up as soon as its VM is not wanted.

    Once it is granted, its VM bills.
    """
    attempt, state = seen.attempt, without_vm(view)
    stop = _stop(view, present_run(seen, view.interruptions), context)
    if isinstance(stop, EndAttempt):
        return Proposal(state, stop.reason, (stop,))
    if view.hold:
        return Proposal(state, f"waits: {view.hold}", (EndAttempt(attempt.id, Outcome.PAUSED, view.hold),))
    if view.plan is not None and view.plan.drops_flex:
        waited = span_text(context.now - (attempt.asked_at or attempt.intended_at))
        reason = f"its request in {attempt.zone} was not granted within {waited} and is given up, {view.plan.reason}"
        return Proposal(state, reason, (EndAttempt(attempt.id, Outcome.STOCKOUT, reason),))
    until = given_up_at(view, attempt)
    if until is not None and context.now >= until:
        return _end(view, attempt, Outcome.STOCKOUT, f"not granted within {span_text(wait_of(view, attempt))}")
    step = look_at_waiting(seen, Proposal(state, waits_text(view, attempt, context)), context)
    return replace(step, next_at=earliest(step.next_at, until, stop if isinstance(stop, datetime) else None))


def _resting(view: JobView, seen: AttemptView, context: JobContext) -> Proposal:
    """Starts the same VM again, where it is, for as long as it takes: its disk holds what it saved.

    Of a VM that is stopped, Google bills its disk alone: it is stopped first, whatever it waits for then.
    """
    attempt, vm, place = seen.attempt, seen.vm, place_of(seen.attempt)
    if view.job.cancel_asked_at is not None:
        return _end(view, attempt, Outcome.CANCELLED, "cancelled while its VM was stopped")
    if vm is not None and vm.is_known and vm.gone_at is not None:
        return _end(view, attempt, Outcome.LOST, f"its stopped VM in {place} is gone, and its disk with it")
    left = time_left(view, attempt.rate) if attempt.rate is not None else None
    may_grow = is_held_by_sweep(view) and view.common is not None and view.common.may_grow
    if left is not None and left < LEAST_RUN and not may_grow:
        return _end(view, attempt, Outcome.TIME_LIMIT, f"{ceiling_text(view)} is reached")
    if is_short_of_vm_time(view):
        return _end(view, attempt, Outcome.TIME_LIMIT, f"{vm_hours_text(view)} is reached")
    if is_stopped_by_deadline(view.job, context.now):
        return _end(view, attempt, Outcome.TIME_LIMIT, "its deadline has come")
    if is_up_still(seen, view, context):
        reason = f"its VM in {place} is stopped first, and then restarted with its checkpoints on its disk"
        if not is_due(attempt.try_after, context.now):
            return Proposal(JobState.RECOVERING, reason, next_at=attempt.try_after)
        return Proposal(JobState.RECOVERING, reason, (StopVm(attempt.id, reason),))
    short = f"{ceiling_text(view)} is reserved by its other members" if left is not None and left < LEAST_RUN else ""
    if held := view.held_up or short:
        due = wait_stably(view, context.now + HOLD_AGAIN, context.now)
        return Proposal(JobState.RECOVERING, f"waits: {held}", next_at=due)
    if attempt.error and attempt.try_after is not None and attempt.try_after > context.now:
        again = f"asked again at {clock_text(attempt.try_after, context.now)}"
        reason = f"its VM in {place}, whose disk holds its checkpoints, could not be started: {attempt.error}; {again}"
        return Proposal(JobState.RECOVERING, reason, next_at=attempt.try_after)
    after = after_failures(view, context.terms)
    if after is not None and after > context.now:
        reason = (
            f"its VM in {place} will be restarted at {clock_text(after, context.now)}, with its checkpoints on its disk"
        )
        return Proposal(JobState.RECOVERING, reason, next_at=after)
    if not can_start(seen, view):
        looked_at = goes_down_by(seen, view)
        reason = f"its VM in {place} will be restarted once it has stopped"
        return Proposal(JobState.RECOVERING, reason, next_at=looked_at if looked_at > context.now else None)
    reason = f"its VM in {place} is being restarted, with its checkpoints on its disk"
    return Proposal(JobState.RECOVERING, reason, (RestartVm(attempt.id, reason),))


def _end(view: JobView, attempt: Attempt, outcome: Outcome, reason: str) -> Proposal:
    return Proposal(view.job.state, reason, (EndAttempt(attempt.id, outcome, reason),))
