"""Moves a running job: where the money allows it, the next VM is made ready before the one that trains is stopped.

While it is made ready, and until a checkpoint was saved after that, the job goes on where it is. Two attempts are open
then: the last one, whose command runs, and the one that stands by, whose command waits for the guard's word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from costguard.deadlines.situation import Act
from costguard.jobs.decide.actions import AskAgain, EndAttempt, JobAction, LaunchAttempt, LetBegin, Proposal
from costguard.jobs.decide.attempts.live_attempt import ask, notice_or_end, works
from costguard.jobs.decide.attempts.waiting import look_at_waiting
from costguard.jobs.decide.buy.choice import Chosen, WaitForPlace, choose
from costguard.jobs.decide.buy.placement import LaunchPlace
from costguard.jobs.decide.buy.plan import FRESH, is_request, may_be_moved, may_move
from costguard.jobs.decide.limits.ceiling import ceiling_text, remaining, vm_hours_text, vm_time_left
from costguard.jobs.decide.measures.work_left import unsaved
from costguard.jobs.decide.planned import JobPlan
from costguard.jobs.decide.recovery.ended_runs import after_failures, wait
from costguard.jobs.decide.recovery.ending import ending
from costguard.jobs.decide.view import (
    NO_ROOM,
    UNSETTLED,
    AttemptView,
    JobContext,
    JobView,
    PresentRun,
    earliest,
    may_any_write,
    place_of,
    present_run,
    without_vm,
)
from costguard.model.attempt import STANDING_BY, Attempt, AttemptState, Outcome
from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.moments import clock_text
from costguard.model.money import ZERO, Money

_JUST_SAVED = timedelta(minutes=2)  # so little work is done again without regret
_PATIENCE = timedelta(minutes=30)  # with a VM that is ready, for a checkpoint of the one that trains
_KEPT = timedelta(minutes=15)  # with a VM that is ready, for what holds up its job
_MADE_READY = timedelta(minutes=45)  # a VM that was granted, and a checkpoint after which its job moves
_NEARLY_DONE = timedelta(minutes=5)
_MOST_IN_VAIN = 2  # VMs that came to nothing for another reason than that there was no room
_SECOND = timedelta(seconds=1)


def during(view: JobView, places: Sequence[LaunchPlace], context: JobContext, step: Proposal) -> Proposal:
    """Adds a move to the job's next step where it runs, which is `step`."""
    last = view.last
    if last is None:
        return step
    run = present_run(last, view.interruptions)
    if view.standby is not None:
        return _with_standby(view, run, view.standby, context, step)
    plan = view.plan or _renewal(view, run, context.now)
    if plan is None and not step.actions and run.attempt.provisioning_model is ProvisioningModel.FLEX_START:
        return replace(step, next_at=earliest(step.next_at, _end_of(run) - _lead(view)))
    if step.actions or plan is None or plan.act in (Act.STAY, Act.DROP_FLEX) or run.attempt.stop_asked_at is not None:
        return step
    if run.attempt.state in UNSETTLED | {AttemptState.WAITING} or not may_be_moved(view, run.attempt):
        return step
    return _begun(view, run, plan, places, context, step)


def _renewal(view: JobView, run: PresentRun, now: datetime) -> JobPlan | None:
    """Plans the next VM of a job that no policy plans, while Google is about to end the flex-start VM that it has."""
    if view.job.spec.deadline is not None or not _ends_soon(view, run, now):
        return None
    return JobPlan(Act.START_FLEX, f"Google ends its VM at {clock_text(_end_of(run), now)}")


def renews(view: JobView, now: datetime) -> bool:
    """Says whether it needs its next VM while the one that it has runs on, without a plan that says so."""
    if view.last is None or not view.last.attempt.is_open or view.standby is not None:
        return False
    return _renewal(view, present_run(view.last, view.interruptions), now) is not None


def _ends_soon(view: JobView, run: PresentRun, now: datetime) -> bool:
    """Says whether a request of flex-start would have to be made by now to be granted and made ready by its end."""
    is_flex = run.attempt.provisioning_model is ProvisioningModel.FLEX_START
    return is_flex and _end_of(run) - now <= _lead(view)


def _lead(view: JobView) -> timedelta:
    return view.job.recipe.wait + _MADE_READY


def _end_of(run: PresentRun) -> datetime:
    """Returns the moment at which Google ends its VM."""
    return (run.began_at or run.attempt.intended_at) + run.attempt.max_run


def take_over(view: JobView, seen: AttemptView, context: JobContext) -> Proposal:
    """Nothing of the job runs, and a VM is ready for it, or on its way: its command begins as soon as it may."""
    state, attempt = without_vm(view), seen.attempt
    before = view.last.attempt if view.last is not None else None
    reason = f"{before.reason}; " if before is not None and before.reason else ""
    since = before.ended_at if before is not None and before.ended_at is not None else context.now
    after = after_failures(view, context.terms)
    if view.unknown or view.pause:
        why = view.unknown or view.pause
        return _settled(view, seen, context, Proposal(state, f"waits: {why}"), f"its job waits: {why}")
    if view.hold:
        gives_up = f"its job waits: {view.hold}" if context.now - since > _KEPT else ""
        return _settled(view, seen, context, Proposal(state, f"waits: {view.hold}", next_at=since + _KEPT), gives_up)
    if writes := may_any_write(view.attempts, view.interruptions, context):
        waits = f"{reason}its next VM begins once nothing on this one can write any more"
        until = writes if isinstance(writes, datetime) else None
        return _settled(view, seen, context, Proposal(state, waits, next_at=until), "")
    if after is not None and after > context.now:
        gives_up = "its job is not tried again so soon" if after - context.now > _KEPT else ""
        waits = f"{reason}tried again at {clock_text(after, context.now)}"
        return _settled(view, seen, context, Proposal(state, waits, next_at=after), gives_up)
    own = _settled(view, seen, context, Proposal(state, reason), "")
    if any(isinstance(action, EndAttempt) for action in own.actions):
        return own
    takes_over = f"{reason}its VM in {place_of(attempt)} takes over"
    return Proposal(state, takes_over, (*own.actions, LetBegin(attempt.id, takes_over)))


def _with_standby(view: JobView, run: PresentRun, seen: AttemptView, context: JobContext, step: Proposal) -> Proposal:
    gives_up = _why_given_up(view, run, seen, context)
    waits = replace(step, reason=f"{step.reason}; its next VM in {place_of(seen.attempt)} {_how_far(seen)}")
    settled = _settled(view, seen, context, waits if not step.actions else step, gives_up)
    if settled.actions or gives_up or run.attempt.stop_asked_at is not None:
        return settled
    if not _is_ready(seen.attempt) or view.hold or view.unknown or not may_be_moved(view, run.attempt):
        return settled
    if not _is_moment(view, seen.attempt, context.now):
        again = (seen.attempt.ready_at or context.now) + _PATIENCE
        return replace(settled, next_at=earliest(settled.next_at, again))
    place = place_of(seen.attempt)
    stop = notice_or_end(run, view.job.spec.kind, "move", Outcome.MOVED, f"moves to {place}, where its VM is ready")
    return Proposal(step.state, stop.reason, (stop,))


def _settled(view: JobView, seen: AttemptView, context: JobContext, step: Proposal, gives_up: str) -> Proposal:
    """Adds what the attempt that stands by needs itself: that its VM is requested, or that its end is written down."""
    attempt = seen.attempt
    if attempt.state is AttemptState.WAITING and not gives_up:
        return look_at_waiting(seen, step, context)
    if attempt.state in UNSETTLED:
        asks = ask(view, seen, context)
        actions: list[JobAction] = [
            replace(one, only_looks=True) if gives_up and isinstance(one, AskAgain) else one for one in asks.actions
        ]
        return replace(step, actions=(*step.actions, *actions), next_at=earliest(step.next_at, asks.next_at))
    waits = attempt.state is AttemptState.WAITING
    end = None if waits else ending(present_run(seen, view.interruptions), view.job, context)
    if end is not None and end.due_at <= context.now:
        return replace(step, actions=(*step.actions, EndAttempt(attempt.id, end.outcome, end.reason)))
    if gives_up:
        return replace(step, actions=(*step.actions, EndAttempt(attempt.id, Outcome.CANCELLED, gives_up)))
    return replace(step, next_at=earliest(step.next_at, end.due_at if end is not None else None))


def _why_given_up(view: JobView, run: PresentRun, seen: AttemptView, context: JobContext) -> str:
    """Explains why the VM that stands by is not needed any more; "" while it is.

    A job near its end goes on where it is.
    """
    job, plan = view.job, view.plan
    if job.cancel_asked_at is not None or job.cancel_after_at is not None:
        return "its job is to be cancelled"
    if view.unknown or view.pause:
        return f"its job waits: {view.unknown or view.pause}"
    if plan is not None and plan.drops_flex and is_request(seen.attempt):
        return f"its request of flex-start is given up, {plan.reason}"
    is_stopping = run.attempt.stop_asked_at is not None
    if is_stopping and run.attempt.stop_why != "move":
        return "the VM that trains is stopped for another reason"
    if is_stopping:
        return ""
    if plan is not None and plan.work_left is not None and not plan.is_urgent and plan.work_left.likely < _NEARLY_DONE:
        return "its job is nearly done where it runs"
    ready_at = seen.attempt.ready_at
    is_late = ready_at is not None and context.now - ready_at > _PATIENCE and not _ends_soon(view, run, context.now)
    if is_late and not _is_moment(view, seen.attempt, context.now):
        return f"within {span_text(_PATIENCE)} no checkpoint was saved after which its job could move"
    return ""


def _is_ready(attempt: Attempt) -> bool:
    return attempt.ready_at is not None and attempt.agent.phase == STANDING_BY and attempt.agent.exit is None


def _is_moment(view: JobView, standby: Attempt, now: datetime) -> bool:
    """Right after a checkpoint. Where none comes, at last with what a move may lose, or what the guard accepts."""
    loses = unsaved(view, now)
    seen = view.checkpoint
    if standby.ready_at is None:
        return False
    if loses <= _JUST_SAVED:
        return True
    is_new = seen is not None and seen.written_at is not None and seen.written_at > standby.ready_at
    waited = now - standby.ready_at
    is_urgent = view.plan is not None and view.plan.is_urgent
    return is_new or (waited >= FRESH and (loses <= FRESH or (is_urgent and waited >= _PATIENCE)))


def _how_far(seen: AttemptView) -> str:
    return "is ready to take over" if _is_ready(seen.attempt) else "is made ready to take over"


def _begun(
    view: JobView, run: PresentRun, plan: JobPlan, places: Sequence[LaunchPlace], context: JobContext, step: Proposal
) -> Proposal:
    """The next VM is asked for; or, where there cannot be two at once, the one that there is stops first."""
    launch = _next_vm(view, run, plan, places, context)
    if isinstance(launch, LaunchAttempt):
        asks = f"{step.reason}; its next VM in {launch.zone} ({launch.provisioning_model.in_words}) is asked for"
        return Proposal(step.state, asks, (launch,))
    if isinstance(launch, datetime):
        return replace(step, next_at=earliest(step.next_at, launch))
    if launch is None or plan.act is Act.START_FLEX or not may_move(view, plan, run.attempt, context.now):
        return step
    why = f" ({launch}, so it stops before its next VM starts)" if launch else ""
    stop = notice_or_end(run, view.job.spec.kind, "move", Outcome.MOVED, f"moves as planned, {plan.reason}{why}")
    return Proposal(step.state, stop.reason, (stop,))


def _next_vm(
    view: JobView, run: PresentRun, plan: JobPlan, places: Sequence[LaunchPlace], context: JobContext
) -> LaunchAttempt | datetime | str | None:
    """Returns the launch, or when it is due; a text: why there cannot be two at once.

    None: the job stays where it is.
    """
    if plan.act is Act.WAIT or view.job.spec.checkpoint is None or not works(run) or run.agent.started_at is None:
        return ""
    if view.held_up:
        return None
    vain = [one for one in view.attempts if one.attempt.follows == run.attempt.number and not one.attempt.took_over]
    again = _again_at(view, vain, context)
    if isinstance(again, str) or (again is not None and again > context.now):
        return again
    others = [one for one in view.attempts if one not in vain]
    chosen = choose(replace(view, attempts=(*others, *vain)), places, context)
    if isinstance(chosen, WaitForPlace):
        is_full = bool(places) and all(place.passed_over for place in places if place.rate is not None)
        if plan.is_urgent and is_full and not vain:
            return "the quota does not allow two VMs at once"
        return chosen.until
    if not isinstance(chosen, Chosen):
        return None
    longest = _longest(view, run, plan, chosen, context.now)
    if isinstance(longest, str):
        return longest
    place = chosen.place
    number = run.attempt.number
    return LaunchAttempt(
        view.job.id,
        view.next_number,
        place.zone,
        place.provisioning_model,
        longest,
        chosen.reason,
        place.rate,
        number,
        place.address,
    )


def _again_at(view: JobView, vain: Sequence[AttemptView], context: JobContext) -> datetime | str | None:
    """When the next one is tried, after those that came to nothing; None: now. Places without room wait by themselves.

    A text: why no other is tried.
    """
    if not vain:
        return None
    last, failed = vain[-1].attempt, [one for one in vain if one.attempt.outcome not in NO_ROOM]
    if last.outcome is Outcome.QUOTA:
        return "the quota does not allow two VMs at once"
    if len(failed) >= _MOST_IN_VAIN:
        return f"{len(failed)} VMs that were to take over came to nothing"
    if last.outcome in NO_ROOM:
        return None
    return (last.ended_at or context.now) + wait(context.terms, view.job.id, last.number, len(vain))


def _longest(view: JobView, run: PresentRun, plan: JobPlan, chosen: Chosen, now: datetime) -> timedelta | str:
    """Returns the time that the next VM may run, so that both can come to their time limits without more than the
    ceiling.

    Google ends them there, also if the guard is dead. A text: why the money does not allow two at once.
    """
    rate, attempt = chosen.place.rate, run.attempt
    overhead = plan.overhead
    together = (overhead.start if overhead is not None else _PATIENCE) + FRESH
    price = rate.over(together) if rate is not None else ZERO
    if view.budget_left is not None and (rate is None or price > view.budget_left):
        return f"budget {view.budget_name} leaves {view.budget_left}, and two VMs at once would take {price} more"
    left, hours = remaining(view), vm_time_left(view)
    if left is not None and (rate is None or attempt.rate is None or rate <= ZERO):
        return "the price of a VM is not known, and the job has a ceiling"
    runs_on = max(_end_of(run) - now, timedelta())
    work = plan.work_left.most if plan.work_left is not None else timedelta()
    needed = min(view.job.recipe.max_run, work + (overhead.whole if overhead is not None else timedelta()))
    longest = chosen.max_run
    if left is not None and rate is not None and attempt.rate is not None:
        longest = min(longest, _span(left - attempt.rate.over(runs_on), rate))
        if longest < min(needed, chosen.max_run):
            return f"{ceiling_text(view)} does not pay for two VMs at once"
    if hours is not None:
        longest = min(longest, max(hours - runs_on, timedelta()))
        if longest < min(needed, chosen.max_run):
            return f"{vm_hours_text(view)} does not last for two VMs at once"
    return longest


def _span(amount: Money, rate: Money) -> timedelta:
    return _SECOND * max(amount.nanos * 3600 // rate.nanos, 0)
