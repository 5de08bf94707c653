"""What an attempt calls for whose outcome is not known yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.jobs.backoff import after_failures
from costguard.jobs.limits import LEAST_RUN, time_left
from costguard.jobs.running import running
from costguard.jobs.runs import of_attempt, present_run
from costguard.jobs.step import HOLD_AGAIN, Step, is_due, wait_stably
from costguard.jobs.view import AskAgain, AttemptView, Circumstances, EndAttempt, JobView, RestartVm, StopVm, VmStanding
from costguard.jobs.words import clock, place_of
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.instance import Status
from costguard.model.job import JobState

_DOWN = frozenset({Status.STOPPED, Status.SUSPENDED, Status.STOPPING, Status.SUSPENDING, Status.DEPROVISIONING})
_GOOGLES = frozenset({Outcome.PREEMPTED, Outcome.HOST_ERROR, Outcome.TIME_LIMIT})
_GOES_DOWN = timedelta(minutes=3)
_UNKNOWN = frozenset({AttemptState.INTENDED, AttemptState.ASKED, AttemptState.RESTARTING})


def live_run(view: JobView, seen: AttemptView, about: Circumstances) -> Step:
    """The unknown is settled before anything else: nobody can delete a VM of which nobody knows whether it is there."""
    attempt = seen.attempt
    if attempt.state in _UNKNOWN:
        return _ask(view, seen, about)
    if attempt.state is AttemptState.RESTING:
        return _resting(view, seen, about)
    return running(view, present_run(seen, view.interruptions), about)


def _ask(view: JobView, seen: AttemptView, about: Circumstances) -> Step:
    attempt = seen.attempt
    place = place_of(attempt)
    if attempt.state is AttemptState.INTENDED:
        reason = f"asks for a VM in {place}"
    elif attempt.state is AttemptState.ASKED:
        reason = f"Google makes its VM in {place}"
    else:
        reason = f"its VM in {place} is started again"
    if attempt.error:
        reason = f"{reason}; the last answer was: {attempt.error}"
    if view.job.cancel_asked_at is not None:
        reason = f"is cancelled once it is known whether there is a VM: {reason}"
    if not is_due(attempt.try_after, about.now):
        return Step(JobState.PROVISIONING, reason, next_at=attempt.try_after)
    only_looks = bool(view.unknown) and attempt.state is AttemptState.INTENDED
    return Step(JobState.PROVISIONING, reason, (AskAgain(attempt.id, reason, only_looks),))


def _resting(view: JobView, seen: AttemptView, about: Circumstances) -> Step:
    """Its disk holds what it saved, so the same VM is started again, where it is, for as long as it takes.

    Of a VM that is stopped, Google bills its disk alone: it is stopped first, whatever it waits for then.
    """
    attempt, vm, place = seen.attempt, seen.vm, place_of(seen.attempt)
    if view.job.cancel_asked_at is not None:
        return _end(view, attempt, Outcome.CANCELLED, "cancelled while its VM was stopped")
    if vm is not None and vm.is_known and vm.gone_at is not None:
        return _end(view, attempt, Outcome.LOST, f"its stopped VM in {place} is gone, and its disk with it")
    left = time_left(view, attempt.rate) if attempt.rate is not None else None
    if left is not None and left < LEAST_RUN:
        return _end(view, attempt, Outcome.TIME_LIMIT, "its ceiling is reached")
    if _is_up_still(seen, view, about):
        reason = f"its VM in {place} is stopped first, and started again with what it saved on its disk"
        if not is_due(attempt.try_after, about.now):
            return Step(JobState.RECOVERING, reason, next_at=attempt.try_after)
        return Step(JobState.RECOVERING, reason, (StopVm(attempt.id, reason),))
    if held := view.unknown or view.hold or view.pause:
        due = wait_stably(view, about.now + HOLD_AGAIN, about.now)
        return Step(JobState.RECOVERING, f"waits: {held}", next_at=due)
    if attempt.error and attempt.try_after is not None and attempt.try_after > about.now:
        again = f"asked again at {clock(attempt.try_after, about.now)}"
        reason = f"its VM in {place}, whose disk holds what it saved, could not be started: {attempt.error}; {again}"
        return Step(JobState.RECOVERING, reason, next_at=attempt.try_after)
    after = after_failures(view, about.terms)
    if after is not None and after > about.now:
        reason = f"its VM in {place} is started again at {clock(after, about.now)}, with what it saved on its disk"
        return Step(JobState.RECOVERING, reason, next_at=after)
    if not _can_start(seen, view):
        looked_at = _goes_down_by(seen, view)
        reason = f"its VM in {place} is started again once it has stopped"
        return Step(JobState.RECOVERING, reason, next_at=looked_at if looked_at > about.now else None)
    reason = f"its VM in {place} is started again, with what it saved on its disk"
    return Step(JobState.RECOVERING, reason, (RestartVm(attempt.id, reason),))


def _is_up_still(seen: AttemptView, view: JobView, about: Circumstances) -> bool:
    """Whether the VM of the run that ended may be up and will not go down by itself, as those that Google ends do."""
    ended = of_attempt(seen.attempt, view.interruptions)
    if not ended or seen.attempt.rested_at is not None or about.now < _goes_down_by(seen, view):
        return False
    vm = _of_last_run(seen, view)
    if vm is None:
        return True  # the ledger has not seen it yet: a look will tell
    is_new = vm.started_at is not None and vm.started_at > ended[-1].happened_at
    return vm.is_known and vm.status not in _DOWN and not is_new


def _goes_down_by(seen: AttemptView, view: JobView) -> datetime:
    """When a VM that Google ends is down; at once where it was not Google."""
    last = of_attempt(seen.attempt, view.interruptions)[-1:]
    if not last:
        return seen.attempt.intended_at
    return last[0].happened_at + (_GOES_DOWN if last[0].outcome in _GOOGLES else timedelta())


def _can_start(seen: AttemptView, view: JobView) -> bool:
    """Once it has stopped; one that somebody started meanwhile is started once more, which Google takes as done."""
    vm, ended = _of_last_run(seen, view), of_attempt(seen.attempt, view.interruptions)
    if seen.attempt.rested_at is not None and (vm is None or vm.is_known):
        return True
    if vm is None or not vm.is_known:
        return False
    is_new = bool(ended) and vm.started_at is not None and vm.started_at > ended[-1].happened_at
    return vm.status is Status.STOPPED or (vm.status is Status.RUNNING and is_new)


def _of_last_run(seen: AttemptView, view: JobView) -> VmStanding | None:
    """What the ledger shows of it, unless that is older than the run that ended last."""
    vm, before = seen.vm, of_attempt(seen.attempt, view.interruptions)[-2:-1]
    if vm is None or not before or vm.gone_at is not None:
        return vm
    return vm if vm.started_at is not None and vm.started_at > before[0].happened_at else None


def _end(view: JobView, attempt: Attempt, outcome: Outcome, reason: str) -> Step:
    return Step(view.job.state, reason, (EndAttempt(attempt.id, outcome, reason),))
