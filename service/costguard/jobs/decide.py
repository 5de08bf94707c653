"""What comes next for a job, whatever became of its VMs: every pass decides anew from what is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costguard.jobs.kept_disk import holds_only_copy
from costguard.jobs.live_run import live_run
from costguard.jobs.next_vm import next_vm
from costguard.jobs.placement import Place
from costguard.jobs.step import Step, earliest, is_due
from costguard.jobs.verdict import verdict
from costguard.jobs.view import AskAgain, Circumstances, DeleteVm, EndAttempt, JobAction, JobDecision, JobView, StopVm
from costguard.jobs.words import place_of
from costguard.model.attempt import AttemptState, Outcome

_UNKNOWN = frozenset({AttemptState.INTENDED, AttemptState.ASKED})


def decide(view: JobView, places: Sequence[Place], about: Circumstances) -> JobDecision:
    """The job's state and reason, and what is done for it now. The same view gives the same decision.

    An end is written down first, and judged by the next decision, so that a crash in between loses nothing: right
    after an `EndAttempt` or `RestAttempt` was carried out it is worth deciding again. `places` are only looked at
    where no attempt is open.
    """
    last = view.last
    if view.job.state.is_over:
        step = Step(view.job.state, view.job.reason, _loose_end(view, about))
    elif last is not None and last.attempt.is_open:
        step = live_run(view, last, about)
    elif (final := verdict(view, about)) is not None:
        step = Step(*final)
    else:
        step = next_vm(view, places, about)
    deletes, delete_at = _deletes(view, about)
    actions = (*step.actions, *deletes)
    return JobDecision(
        view.job.id, step.state, step.reason, actions, about.now if actions else earliest(step.next_at, delete_at)
    )


def _loose_end(view: JobView, about: Circumstances) -> tuple[JobAction, ...]:
    """A job that is over leaves no attempt open: its VM would bill for nobody."""
    if view.last is None or not view.last.attempt.is_open:
        return ()
    attempt = view.last.attempt
    if attempt.state not in _UNKNOWN:
        return (EndAttempt(attempt.id, Outcome.CANCELLED, f"its job is over: {view.job.reason}"),)
    return (AskAgain(attempt.id, "its job is over"),) if is_due(attempt.try_after, about.now) else ()


def _deletes(view: JobView, about: Circumstances) -> tuple[tuple[JobAction, ...], datetime | None]:
    """For every attempt that ended and whose VM may still be there; and when one is tried again.

    A VM whose disk holds the only copy of what was saved is stopped and kept instead.
    """
    due: list[JobAction] = []
    later: list[datetime | None] = []
    for seen in view.attempts:
        attempt, keeps = seen.attempt, holds_only_copy(view, seen)
        if attempt.state is not AttemptState.ENDING and (keeps or attempt.state is not AttemptState.KEPT):
            continue
        if not is_due(attempt.try_after, about.now):
            later.append(attempt.try_after)
        elif keeps:
            due.append(StopVm(attempt.id, f"its disk in {attempt.zone} holds the only copy of what it saved"))
        else:
            due.append(DeleteVm(attempt.id, f"its attempt in {place_of(attempt)} has ended: {attempt.reason}"))
    return tuple(due), earliest(*later)
