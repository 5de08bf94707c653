"""From decisions to what is written down and what is asked of Google."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from costguard.jobs.launch_delete import Delete
from costguard.jobs.launch_insert import Insert, InsertAgain
from costguard.jobs.launch_operation import Start, Watch, WatchStart
from costguard.jobs.launch_step import Means, Note, Step
from costguard.jobs.launch_stop import Stop
from costguard.jobs.launch_written import Ending, Resting, Standing, Telling
from costguard.jobs.resume import FROM_THE_BEGINNING, ResumePoint
from costguard.jobs.view import (
    AskAgain,
    DeleteVm,
    EndAttempt,
    JobDecision,
    JobView,
    LaunchAttempt,
    RestartVm,
    RestAttempt,
    StopVm,
    TellCommandToStop,
)
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.job import Job, JobState

_SOON = timedelta(seconds=5)
_NO_ROOM = frozenset({Outcome.STOCKOUT, Outcome.QUOTA})


def of_decision(
    view: JobView, decision: JobDecision, points: Mapping[str, ResumePoint], means: Means, now: datetime
) -> tuple[list[Note], list[Step]]:
    """How the job stands comes first, so that a failure to do what was decided never hides it."""
    job = view.job
    notes: list[Note] = [standing] if (standing := _standing(view, decision)) is not None else []
    steps: list[Step] = []
    known = {seen.attempt.id: seen.attempt for seen in view.attempts}
    for action in decision.actions:
        match action:
            case LaunchAttempt():
                steps.append(Insert(means, view, action, points.get(job.id, FROM_THE_BEGINNING)))
            case AskAgain():
                steps.append(_again(means, job, known[action.attempt_id], action.only_looks))
            case RestartVm():
                steps.append(Start(means, job, known[action.attempt_id], action))
            case StopVm():
                steps.append(Stop(means, job, known[action.attempt_id]))
            case DeleteVm():
                steps.append(Delete(means, job, known[action.attempt_id]))
            case EndAttempt():
                notes.append(Ending(job, known[action.attempt_id], action))
            case RestAttempt():
                notes.append(Resting(job, known[action.attempt_id], action))
            case TellCommandToStop():
                notes.append(Telling(job, known[action.attempt_id], action))
            case _:
                raise TypeError(f"{type(action).__name__} is not decided about a job")
    steps += [Watch(means, job, attempt) for attempt in known.values() if _speaks_early(attempt, now)]
    return notes, steps


def _speaks_early(attempt: Attempt, now: datetime) -> bool:
    """Its agent was heard while Google is still thought to make its VM: that is looked at now rather than later."""
    is_later = attempt.try_after is not None and attempt.try_after - now > _SOON
    return attempt.state is AttemptState.ASKED and attempt.heard.at is not None and is_later


def _again(means: Means, job: Job, attempt: Attempt, only_looks: bool) -> Step:
    if attempt.state is AttemptState.INTENDED:
        return InsertAgain(means, job, attempt, only_looks)
    if attempt.state is AttemptState.RESTARTING:
        return WatchStart(means, job, attempt) if attempt.operation else Start(means, job, attempt)
    return Watch(means, job, attempt)


def _standing(view: JobView, decision: JobDecision) -> Standing | None:
    """None where it stands as it did. A running job's next moment is nobody's concern but ours, and is not written."""
    job = view.job
    if job.state.is_over:
        return None
    same = (job.state, job.reason) == (decision.state, decision.reason)
    moved = not decision.actions and job.next_at != decision.next_at and decision.state is not JobState.RUNNING
    if same and not moved:
        return None
    return Standing(job, decision.state, decision.reason, decision.next_at, view.cost, _episode(view, decision))


def _episode(view: JobView, decision: JobDecision) -> int | None:
    """In which wait for a place it is: one more after each VM that it had. None: it does not wait for one."""
    asks = any(isinstance(action, LaunchAttempt | RestartVm | StopVm) for action in decision.actions)
    if asks or decision.state not in (JobState.QUEUED, JobState.RECOVERING):
        return None
    last = view.last.attempt if view.last is not None else None
    is_full = last is not None and (last.outcome in _NO_ROOM or (last.state is AttemptState.RESTING and last.error))
    if not is_full and not view.hold:
        return None
    return sum(1 + seen.attempt.restarts for seen in view.attempts if seen.attempt.made_at is not None)
