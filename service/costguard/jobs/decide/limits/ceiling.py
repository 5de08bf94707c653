"""Computes what a job's ceiling, its sweep's, its VM hours and its deadline leave it: money, and time for its VMs."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.jobs.decide.view import JobView
from costguard.model.attempt import Attempt
from costguard.model.duration import hours_text
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


def vm_time_left(view: JobView) -> timedelta | None:
    """Returns the time that its VMs may still run, added up over all of them; None where nothing limits it."""
    limit = view.job.spec.max_vm_time
    return None if limit is None else max(limit - view.vm_time, timedelta())


def is_short_of_vm_time(view: JobView) -> bool:
    """Says whether its VM hours are used up, or leave too little for all of its VMs to do anything."""
    left = vm_time_left(view)
    return left is not None and left < LEAST_RUN * view.job.spec.nodes


def vm_hours_text(view: JobView) -> str:
    """`its limit of 40 VM hours`."""
    return f"its limit of {hours_text(view.job.spec.max_vm_time or timedelta())}"


def max_run(view: JobView, rate: Money | None) -> timedelta | None:
    """Returns the time that its next VM may run at this rate; None where that is too short, or the ceiling could not be
    held.

    Of a gang, all VMs of which are launched together, each may use its part of the VM hours.
    """
    if is_short_of_vm_time(view):
        return None
    longest, hours = view.job.recipe.max_run, vm_time_left(view)
    if hours is not None:
        longest = min(longest, hours / view.job.spec.nodes)
    longest = longest // _WHOLE_SECOND * _WHOLE_SECOND
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


def out_of_vm_time_at(view: JobView, notice: timedelta, now: datetime) -> datetime | None:
    """When the command must be asked to stop, so that it has saved by the time its VM hours are used up.

    A VM that is made ready to take over uses them too.
    """
    left, standby = vm_time_left(view), view.standby
    if left is None:
        return None
    vms = view.vms_at_once + (standby is not None and standby.attempt.made_at is not None)
    return now + left / vms - notice
