"""Computes what a job's ceiling, its sweep's and its deadline leave it: money, and time for its VMs."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.jobs.decide.view import JobView
from costguard.model.attempt import Attempt
from costguard.model.job import Job, WhenLate
from costguard.model.money import ZERO, Money

DEADLINE_NOTICE = timedelta(minutes=3)  # before its deadline, a job that stops then is given its notice
LEAST_RUN = timedelta(minutes=10)  # a VM for less would only boot
_WHOLE_SECOND = timedelta(seconds=1)


def is_stopped_by_deadline(job: Job, now: datetime) -> bool:
    """Says whether it may use no VM any more, because it was to stop rather than finish late."""
    spec = job.spec
    return spec.deadline is not None and spec.when_late is WhenLate.STOP and now >= spec.deadline - DEADLINE_NOTICE


def remaining(view: JobView) -> Money | None:
    """Returns the amount that its ceiling and its sweep's leave it, never below zero; None where there is neither."""
    ceiling, common = view.job.spec.ceiling, view.common
    own = None if ceiling is None else max(ceiling - view.spent, ZERO)
    if common is None:
        return own
    return common.share if own is None else min(own, common.share)


def is_held_by_sweep(view: JobView) -> bool:
    """Says whether it is its sweep's ceiling that leaves it the least."""
    ceiling, common = view.job.spec.ceiling, view.common
    return common is not None and (ceiling is None or common.share < ceiling - view.spent)


def ceiling_text(view: JobView) -> str:
    """`its ceiling of $60`, or `its sweep's ceiling of $200`, whichever leaves it less."""
    if view.common is not None and is_held_by_sweep(view):
        return f"its sweep's ceiling of {view.common.amount}"
    return f"its ceiling of {view.job.spec.ceiling}"


def time_left(view: JobView, rate: Money, first: Money = ZERO) -> timedelta | None:
    """Returns the time for which its ceiling pays this rate after `first`, in whole seconds; None where nothing bounds
    it.
    """
    left = remaining(view)
    left = None if left is None else max(left - first, ZERO)
    if left is None or rate <= ZERO:
        return None
    return timedelta(seconds=left.nanos * 3600 // rate.nanos)


def max_run(view: JobView, rate: Money | None) -> timedelta | None:
    """Returns the time that its next VM may run at this rate; None where that is too short, or the ceiling could not be
    held.
    """
    longest = view.job.recipe.max_run // _WHOLE_SECOND * _WHOLE_SECOND
    if remaining(view) is None:
        return longest
    if rate is None:
        return None
    left = time_left(view, rate, view.download_ahead)
    if left is None:
        return longest
    return min(longest, left) if left >= LEAST_RUN else None


def stop_at(view: JobView, attempt: Attempt, notice: timedelta, now: datetime) -> datetime | None:
    """When the command must be asked to stop, so that it has saved by the time its ceiling is reached."""
    left = time_left(view, attempt.rate) if attempt.rate is not None else None
    return None if left is None else now + left - notice
