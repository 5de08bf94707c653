"""How long a job still takes, and how much of what it did a preemption could undo."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from costguard.jobs import figures
from costguard.jobs.limits import worked
from costguard.jobs.planned import Overhead, WorkLeft
from costguard.jobs.view import JobView, of_attempt
from costguard.model.attempt import Attempt
from costguard.model.duration import span_text
from costguard.model.job import JobKind
from costguard.progress.finish import TrainingLeft

# Until starts were measured: a start, from the loss of one VM to useful work on the next, takes hardly ever longer.
START = timedelta(minutes=20)
ENDS = timedelta(minutes=3)  # from the last step until its end is known
# Until two checkpoints were seen: how far they lie apart, as their owner probably saves.
APART = timedelta(minutes=15)
_LATE_SAVE = 1.25  # a checkpoint may take so much longer than those before it

_NOTHING = timedelta()
_HOUR = timedelta(hours=1)
_LONG_ENOUGH = timedelta(minutes=10)  # of steps, to trust their speed more than the estimate of the owner
_SURE = timedelta(hours=2)  # after which a measured speed is hardly wrong
_AT_FIRST, _LATER = 0.25, 0.05  # by how much it may be


class MeasuredWork(NamedTuple):
    """What the output of the command so far leaves, and for how long it was read."""

    left: TrainingLeft
    span: timedelta


def work_left(view: JobView, now: datetime, measured: MeasuredWork | None = None) -> WorkLeft | None:
    """None where neither the owner nor the steps tell. Measured steps count for more than the owner's estimate."""
    if view.job.spec.kind is not JobKind.TRAINING:
        return None
    if measured is not None and (measured.span >= _LONG_ENOUGH or view.job.spec.work is None):
        read, again = measured.left, pending_loss(view)
        source = f"{round(read.steps_left):,} steps, batches or epochs at the pace of its output"
        return WorkLeft(_HOUR * read.likely_h + again, _HOUR * read.high_h + again, source)
    by_steps = _by_steps(view)
    if by_steps is not None:
        return by_steps
    spec = view.job.spec
    if spec.work is None:
        return None
    left = max(spec.work - worked(view, now), _NOTHING) + pending_loss(view)
    left = min(left, spec.work)
    return WorkLeft(left, left, f"{span_text(left)} of the {span_text(spec.work)} that its owner expects")


def _by_steps(view: JobView) -> WorkLeft | None:
    total = view.job.spec.total_steps
    tried = [seen.attempt for seen in view.attempts]
    step, speed = figures.step_of(tried), figures.pace(tried, view.cost).per_hour
    if total is None or step is None or speed is None or not speed:
        return None
    measured = _measured(tried)
    if measured < _LONG_ENOUGH and view.job.spec.work is not None:
        return None
    if not _is_open(view) and view.checkpoint is not None and view.checkpoint.step is not None:
        step = min(step, view.checkpoint.step)
    left = _HOUR * float(max(total - step, 0) / speed)
    sureness = min(measured / _SURE, 1.0)
    doubt = _AT_FIRST + (_LATER - _AT_FIRST) * sureness
    return WorkLeft(left, left * (1 + doubt), f"{max(total - step, 0):,} steps at {round(speed):,} an hour")


def _measured(tried: Sequence[Attempt]) -> timedelta:
    """For how long the latest attempt with steps has been seen at work."""
    for attempt in reversed(tried):
        agent = attempt.agent
        if agent.step is not None and agent.step_at is not None and agent.started_at is not None:
            return agent.step_at - agent.started_at
    return _NOTHING


def pending_loss(view: JobView) -> timedelta:
    """What was done since the newest checkpoint that was seen, of a job that has no VM: it is done again."""
    if _is_open(view):
        return _NOTHING
    written_at = view.checkpoint.written_at if view.checkpoint is not None else None
    tried = [seen.attempt for seen in view.attempts]
    loss = figures.lost_work(tried, view.interruptions, written_at)
    if loss is None:
        return _NOTHING
    ran = next(attempt for attempt in reversed(tried) if attempt.agent.started_at is not None)
    counted = [one.lost for one in of_attempt(ran, view.interruptions) if one.run == ran.agent.run]
    return max(loss.span - (counted[-1] or _NOTHING if counted else _NOTHING), _NOTHING)


def unsaved(view: JobView, now: datetime) -> timedelta:
    """What would be done again if its VM were lost now."""
    if view.last is None:
        return _NOTHING
    risk = figures.at_risk(view.last.attempt, view.checkpoint, now)
    return risk.span if risk is not None else _NOTHING


def keeps_nothing(view: JobView) -> bool:
    """Whether a VM elsewhere would begin from the start: nothing is saved, or on the VM's own disk alone."""
    plan = view.job.spec.checkpoint
    return plan is None or plan.is_on_disk


def overhead(view: JobView, start: timedelta | None, written: Sequence[datetime], now: datetime) -> Overhead:
    """`start` is as measured; None: not yet. `written` is when its checkpoints were, as far as they were seen."""
    spec = view.job.spec
    if keeps_nothing(view):
        loss = spec.work or worked(view, now)
    else:
        gaps = [later - earlier for earlier, later in pairwise(sorted(written)) if _in_one_run(view, earlier, later)]
        loss = max(gaps[-20:]) * _LATE_SAVE if gaps else APART
    return Overhead(start or START, loss)


def _in_one_run(view: JobView, earlier: datetime, later: datetime) -> bool:
    return not any(earlier <= one.happened_at <= later for one in view.interruptions)


def _is_open(view: JobView) -> bool:
    return view.last is not None and view.last.attempt.is_open
