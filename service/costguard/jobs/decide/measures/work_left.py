"""Estimates how long a job still takes, how much of its work a preemption could undo, and what preemptions have
cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from costguard.jobs.decide.checkpoints import work_at_risk
from costguard.jobs.decide.planned import Overhead, WorkLeft
from costguard.jobs.decide.view import AttemptView, JobView, width_of
from costguard.model.attempt import Attempt, Outcome
from costguard.model.duration import span_text
from costguard.model.job import CheckpointPlan, JobKind
from costguard_vm.progress.finish import TrainingLeft

# Until starts were measured: a start, from the loss of one VM to useful work on the next, takes hardly ever longer.
START = timedelta(minutes=20)
ENDS = timedelta(minutes=3)  # from the last step until its end is known
INTERVAL = timedelta(minutes=5)  # a job is decided on every minute; a guard that restarts must not miss the moment
# Until two checkpoints were seen: how far they lie apart, as their owner probably saves.
APART = timedelta(minutes=15)
_LATE_SAVE = 1.25  # a checkpoint may take so much longer than those before it

_NOTHING = timedelta()
_HOUR = timedelta(hours=1)
_LONG_ENOUGH = timedelta(minutes=10)  # of output, to trust its pace more than the estimate of the owner
_LEFT_ITS_VM = frozenset({Outcome.PREEMPTED, Outcome.MOVED})


class MeasuredWork(NamedTuple):
    """The work left by the command's output so far, and the time for which its runs were read."""

    left: TrainingLeft
    span: timedelta


def work_left(view: JobView, now: datetime, measured: MeasuredWork | None = None) -> WorkLeft | None:
    """Estimates the work left; None where neither the owner nor the output tells.

    A measured pace counts for more than the owner's estimate.
    """
    if view.job.spec.kind is not JobKind.TRAINING:
        return None
    if measured is not None and (measured.span >= _LONG_ENOUGH or view.job.spec.work is None):
        read, again = measured.left, pending_loss(view)
        source = f"{round(read.steps_left):,} steps, batches or epochs at the pace of its output"
        return WorkLeft(_HOUR * read.likely_h + again, _HOUR * read.high_h + again, source)
    spec = view.job.spec
    if spec.work is None:
        return None
    width = width_of(view.job, (seen.attempt for seen in view.attempts))
    share = width / spec.nodes  # of the VMs for which its owner expects it
    kept = work_at_risk.kept_as_of_all(view, width)
    again = kept - work_at_risk.kept_as_of_all(view, width, pending_loss(view))
    left = max(spec.work - kept - _runs_for(view, now) * share, _NOTHING) + again
    left = min(left, spec.work) / share
    fewer = f", on {width} of {spec.nodes} VMs" if share < 1 else ""
    return WorkLeft(left, left, f"{span_text(left)} of the {span_text(spec.work)} that its owner expects{fewer}")


def pending_loss(view: JobView) -> timedelta:
    """Returns the work since the newest checkpoint that was seen, until the command runs again: it is done again."""
    if _is_open(view) and view.last is not None and view.last.attempt.agent.started_at is not None:
        return _NOTHING
    written_at = view.checkpoint.written_at if view.checkpoint is not None else None
    return work_at_risk.uncounted_loss(view, written_at)


def _worked(view: JobView, now: datetime) -> timedelta:
    """Returns the work that is done: the time its command ran, without work that was lost."""
    return work_at_risk.kept_in(view) + _runs_for(view, now)


def _runs_for(view: JobView, now: datetime) -> timedelta:
    """Returns for how long its command has run since the present run of it began; zero where none runs."""
    done, over = _NOTHING, {one.number for one in view.rounds}
    for seen in _of_one(view):
        if seen.attempt.round in over:  # its agent has not begun the next round, and that one is counted
            continue
        if (since := work_at_risk.runs_since(seen.attempt, view.interruptions)) is not None:
            until = seen.vm.ended_at if seen.vm is not None else None
            done += max((until or now) - since, _NOTHING)
    return done


def unsaved(view: JobView, now: datetime) -> timedelta:
    """Returns the work that would be done again if its VM were lost now."""
    if view.last is None:
        return _NOTHING
    risk = work_at_risk.at_risk(view.last.attempt, view.checkpoint, now)
    return risk.span if risk is not None else _NOTHING


def overspent(view: JobView, on_demand: float) -> float:
    """Returns the dollars by which VMs that were lost or left cost more than their kept work does on demand, at this
    rate.
    """
    tried = [seen.attempt for seen in view.attempts if _is_in_vain(seen.attempt)]
    if not tried:
        return 0.0
    paid = sum(one.rate.over(_billed(one)).nanos for one in tried if one.rate is not None) / 1e9
    kept = work_at_risk.kept_work([one for one in tried if one.node == 0], view.interruptions) - pending_loss(view)
    return paid - on_demand * (max(kept, _NOTHING) / _HOUR)


def _is_in_vain(attempt: Attempt) -> bool:
    return attempt.outcome in _LEFT_ITS_VM or (attempt.follows is not None and not attempt.is_open)


def _billed(attempt: Attempt) -> timedelta:
    end = attempt.gone_at or attempt.ended_at
    return max(end - attempt.made_at, _NOTHING) if attempt.made_at is not None and end is not None else _NOTHING


def keeps_nothing(plan: CheckpointPlan | None) -> bool:
    """Says whether a VM elsewhere would begin from the start: nothing is saved, or on the VM's own disk alone."""
    return plan is None or plan.is_on_disk


def overhead(view: JobView, start: timedelta | None, written: Sequence[datetime], now: datetime) -> Overhead:
    """`start` is as measured; None: not yet. `written` is when its checkpoints were, as far as they were seen."""
    spec = view.job.spec
    if keeps_nothing(spec.checkpoint):
        loss = spec.work or _worked(view, now)
    else:
        gaps = [later - earlier for earlier, later in pairwise(sorted(written)) if _in_one_run(view, earlier, later)]
        loss = max(gaps[-20:]) * _LATE_SAVE if gaps else APART
    return Overhead(start or START, loss)


def _of_one(view: JobView) -> list[AttemptView]:
    """Returns the attempts whose time is the job's: of a gang, whose VMs work at the same time, those of one node."""
    one = view.last.attempt.node if view.job.spec.is_elastic and view.last is not None else 0
    return [seen for seen in view.attempts if seen.attempt.node == one]


def _in_one_run(view: JobView, earlier: datetime, later: datetime) -> bool:
    return not any(earlier <= one.happened_at <= later for one in view.interruptions)


def _is_open(view: JobView) -> bool:
    return view.last is not None and view.last.attempt.is_open
