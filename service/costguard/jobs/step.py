"""How a job stands after one look, and what its live run calls for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.jobs.view import JobAction, JobView
from costguard.model.job import JobState

HOLD_AGAIN = timedelta(minutes=5)  # until budgets are looked at again: a new period may have begun


@dataclass(frozen=True, slots=True)
class Step:
    state: JobState
    reason: str
    actions: tuple[JobAction, ...] = ()
    next_at: datetime | None = None


def without_vm(view: JobView) -> JobState:
    """Queued until it has had a VM, recovering after that."""
    had_one = any(each.attempt.made_at is not None for each in view.attempts)
    return JobState.RECOVERING if had_one else JobState.QUEUED


def is_due(try_after: datetime | None, now: datetime) -> bool:
    return try_after is None or try_after <= now


def wait_stably(view: JobView, due: datetime, now: datetime) -> datetime:
    """The moment that is written down already, where it is still to come and not later: it need not be moved."""
    known = view.job.next_at
    return known if known is not None and now < known <= due else due


def earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
