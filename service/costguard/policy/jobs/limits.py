"""What a job may still cost, and how often it may still fail."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from costguard.model.attempt import Attempt, Outcome
from costguard.model.money import ZERO, Money
from costguard.policy.jobs.runs import NO_ROOM
from costguard.policy.jobs.view import JobView, Terms
from costguard.policy.jobs.words import count

LEAST_RUN = timedelta(minutes=10)  # a VM for less would only boot
_IN_VAIN = 3  # VMs in a row that were lost before anything new was saved
_VAIN = frozenset({Outcome.LOST, Outcome.HOST_ERROR, Outcome.NOT_STARTED})
_SECOND = timedelta(seconds=1)


def remaining(view: JobView) -> Money | None:
    """What its ceiling leaves, never below zero; None where it has none."""
    ceiling = view.job.spec.ceiling
    return None if ceiling is None else max(ceiling - view.cost.amount, ZERO)


def time_left(view: JobView, rate: Money) -> timedelta | None:
    """For how long its ceiling pays this rate, whole seconds; None where nothing bounds it."""
    left = remaining(view)
    if left is None or rate <= ZERO:
        return None
    return timedelta(seconds=left.nanos * 3600 // rate.nanos)


def max_run(view: JobView, rate: Money | None) -> timedelta | None:
    """How long its next VM may run at this rate; None where that is too short, or the ceiling could not be held."""
    longest = view.job.recipe.max_run // _SECOND * _SECOND
    if view.job.spec.ceiling is None:
        return longest
    if rate is None:
        return None
    left = time_left(view, rate)
    if left is None:
        return longest
    return min(longest, left) if left >= LEAST_RUN else None


def preemptions(view: JobView) -> int:
    """Interrupted runs by preemption, each once, whatever told of it."""
    runs = {(each.attempt_id, each.run) for each in view.interruptions if each.outcome is Outcome.PREEMPTED}
    told = {attempt_id for attempt_id, _ in runs}
    return len(runs) + sum(
        each.attempt.outcome is Outcome.PREEMPTED and each.attempt.id not in told for each in view.attempts
    )


def crashes(view: JobView) -> int:
    """Commands that failed, and commands that could not be started; not VMs that never came up."""
    return sum(each.attempt.outcome is Outcome.CRASHED or _never_ran(each.attempt) for each in view.attempts)


def _never_ran(attempt: Attempt) -> bool:
    """The agent could not start the command."""
    return attempt.outcome is Outcome.NOT_STARTED and attempt.heard.exit is not None


def failures_in_a_row(view: JobView) -> int:
    """Attempts at the end that did not come far: crashes, lost VMs, commands that did not start."""
    ends = _VAIN | {Outcome.CRASHED}
    return _length(view, lambda attempt: attempt.outcome in ends)


def too_many(view: JobView, terms: Terms) -> str:
    """Why it is not tried again, such as a crash loop; "" where it is."""
    spec, last = view.job.spec, view.last
    reason = last.attempt.reason if last is not None else ""
    if (preempted := preemptions(view)) > spec.max_preemptions:
        return f"preempted {count(preempted, 'time')}, and {spec.max_preemptions} were allowed"
    quick = _length(view, lambda attempt: is_quick_crash(attempt, terms))
    if quick >= terms.crash_loop:
        return f"a crash loop: {quick} times in a row {reason}, soon after its start; the last output is kept"
    if (crashed := crashes(view)) > spec.max_crashes:
        allowed = (
            f"it was crash {crashed}, and {spec.max_crashes} were allowed" if spec.max_crashes else "none is allowed"
        )
        return f"{reason}; {allowed}; the last output is kept"
    if (vain := _length(view, lambda attempt: attempt.outcome in _VAIN and not has_saved(view, attempt))) >= _IN_VAIN:
        return f"{vain} times in a row its VM came to nothing; the last time {reason}"
    return ""


def is_quick_crash(attempt: Attempt, terms: Terms) -> bool:
    heard = attempt.heard
    if attempt.outcome is not Outcome.CRASHED or heard.exit is None:
        return False
    return heard.started_at is None or heard.exit.at - heard.started_at < terms.quick_crash


def has_saved(view: JobView, attempt: Attempt) -> bool:
    """Whether a newer checkpoint was seen since this attempt began."""
    seen = view.checkpoint
    return seen is not None and seen.advanced_at is not None and seen.advanced_at > attempt.intended_at


def saves_unseen(view: JobView) -> bool:
    """Whether nobody could look at what it saved, so that nothing can be said about progress."""
    return view.job.spec.checkpoint is not None and (view.checkpoint is None or view.checkpoint.error != "")


def stop_at(view: JobView, attempt: Attempt, notice: timedelta, now: datetime) -> datetime | None:
    """When the command is to be told to stop, so that its notice is over when its ceiling is reached."""
    left = time_left(view, attempt.rate) if attempt.rate is not None else None
    return None if left is None else now + left - notice


def _length(view: JobView, holds: Callable[[Attempt], bool]) -> int:
    """Of the row of attempts at the end of which this holds; those that never had a VM are passed over."""
    length = 0
    for each in reversed(view.attempts):
        if each.attempt.outcome in NO_ROOM:
            continue
        if not holds(each.attempt):
            break
        length += 1
    return length
