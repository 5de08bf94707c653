"""What a job may still cost, and how often it may still fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.jobs.runs import NO_ROOM, of_attempt
from costguard.jobs.view import JobView
from costguard.jobs.words import count
from costguard.model.attempt import Attempt, Interruption, Notice, Outcome
from costguard.model.job import Terms
from costguard.model.money import ZERO, Money

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
    return sum(run.outcome is Outcome.PREEMPTED for run in ended_runs(view))


def crashes(view: JobView) -> int:
    """Commands that failed, and commands that could not be started; not VMs that never came up."""
    return sum(run.outcome is Outcome.CRASHED or run.never_ran for run in ended_runs(view))


def failures_in_a_row(view: JobView) -> int:
    """Runs at the end that did not come far: crashes, lost VMs, commands that did not start."""
    ends = _VAIN | {Outcome.CRASHED}
    return _length(view, lambda run: run.outcome in ends)


def too_many(view: JobView, terms: Terms) -> str:
    """Why it is not tried again, such as a crash loop; "" where it is."""
    spec = view.job.spec
    reason = view.last.attempt.reason if view.last is not None else ""
    if (preempted := preemptions(view)) > spec.max_preemptions:
        return f"preempted {count(preempted, 'time')}, and {spec.max_preemptions} were allowed"
    quick = _length(view, lambda run: run.outcome is Outcome.CRASHED and run.is_quick(terms))
    if quick >= terms.crash_loop:
        return f"a crash loop: {quick} times in a row {reason}, soon after its start; the last output is kept"
    if (crashed := crashes(view)) > spec.max_crashes:
        allowed = (
            f"it was crash {crashed}, and {spec.max_crashes} were allowed" if spec.max_crashes else "none is allowed"
        )
        return f"{reason}; {allowed}; the last output is kept"
    if (vain := _length(view, lambda run: run.outcome in _VAIN and not run.has_saved(view))) >= _IN_VAIN:
        return f"{vain} times in a row its VM came to nothing; the last time {reason}"
    return ""


def is_quick_crash(attempt: Attempt, terms: Terms) -> bool:
    heard = attempt.heard
    if attempt.outcome is not Outcome.CRASHED or heard.exit is None:
        return False
    return heard.started_at is None or heard.exit.at - heard.started_at < terms.quick_crash


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How one run of the command ended; a VM that is started again has several. `began_at` is when it was asked for.

    `ran` is None where the command was never seen to run.
    """

    outcome: Outcome
    began_at: datetime
    ended_at: datetime | None
    ran: timedelta | None
    never_ran: bool = False  # its agent could not start the command

    def is_quick(self, terms: Terms) -> bool:
        return self.ran is None or self.ran < terms.quick_crash

    def has_saved(self, view: JobView) -> bool:
        """Whether a newer checkpoint was seen since it began."""
        seen = view.checkpoint
        return seen is not None and seen.advanced_at is not None and seen.advanced_at > self.began_at


def ended_runs(view: JobView) -> list[EndedRun]:
    """All that ended before the work was done, each once, the oldest first; where there was no room, none ran."""
    return [run for seen in view.attempts for run in _runs_of(seen.attempt, view.interruptions)]


def has_saved(view: JobView, attempt: Attempt) -> bool:
    """Whether a newer checkpoint was seen since the last run of this attempt began."""
    runs = _runs_of(attempt, view.interruptions)
    return bool(runs) and runs[-1].has_saved(view)


def saves_unseen(view: JobView) -> bool:
    """Whether nobody could look at what it saved, so that nothing can be said about progress."""
    return view.job.spec.checkpoint is not None and (view.checkpoint is None or view.checkpoint.error != "")


def stop_at(view: JobView, attempt: Attempt, notice: timedelta, now: datetime) -> datetime | None:
    """When the command is to be told to stop, so that its notice is over when its ceiling is reached."""
    left = time_left(view, attempt.rate) if attempt.rate is not None else None
    return None if left is None else now + left - notice


def _runs_of(attempt: Attempt, interruptions: Sequence[Interruption]) -> list[EndedRun]:
    found: list[EndedRun] = []
    began_at, heard = attempt.intended_at, attempt.heard
    mine = of_attempt(attempt, interruptions)
    for one in mine:
        started_at = one.started_at or (heard.started_at if heard.run == one.run else None)
        ran = one.happened_at - started_at if started_at is not None else None
        found.append(EndedRun(one.outcome, began_at, one.noticed_at, ran, _could_not_start(one)))
        began_at = one.happened_at
    # The interruption of its last run and its own outcome are one end.
    is_known = any(one.outcome is attempt.outcome and one.happened_at == mine[-1].happened_at for one in mine)
    if attempt.outcome is None or attempt.outcome in NO_ROOM or is_known:
        return found
    ran = None
    if heard.started_at is not None and heard.exit is not None:
        ran = heard.exit.at - heard.started_at
    never_ran = attempt.outcome is Outcome.NOT_STARTED and heard.exit is not None
    return [*found, EndedRun(attempt.outcome, began_at, attempt.ended_at, ran, never_ran)]


def _could_not_start(one: Interruption) -> bool:
    return one.outcome is Outcome.NOT_STARTED and one.noticed_by is Notice.EXIT


def _length(view: JobView, holds: Callable[[EndedRun], bool]) -> int:
    """Of the row of runs at the end of which this holds."""
    length = 0
    for run in reversed(ended_runs(view)):
        if not holds(run):
            break
        length += 1
    return length
