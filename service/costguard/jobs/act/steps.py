"""Turns decisions about jobs into notes for the ledger and steps for the executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions.execute import Note, Step
from costguard.events import audit_log
from costguard.jobs.act.attempts.delete import DeleteStep
from costguard.jobs.act.attempts.insert import InsertStep, RepeatInsertStep, reckon
from costguard.jobs.act.attempts.start_stop import StartStep, StopStep, WatchStartStep
from costguard.jobs.act.attempts.vm_step import OPEN, JobNote, LaunchContext, end
from costguard.jobs.act.attempts.watch_insert import WatchInsertStep
from costguard.jobs.act.gang.gang_notes import LetRoundBeginNote, NextRoundNote
from costguard.jobs.act.gang.placement_steps import MakePolicyStep
from costguard.jobs.act.groups import group_steps
from costguard.jobs.decide.actions import (
    AskAgain,
    CancelAfterCheckpoint,
    DeleteVm,
    EndAttempt,
    JobDecision,
    LaunchAttempt,
    LetBegin,
    LetRoundBegin,
    MakePlacementPolicy,
    NextRound,
    RestartVm,
    RestAttempt,
    StopVm,
    TellCommandToStop,
)
from costguard.jobs.decide.recovery.resume import FROM_THE_BEGINNING, ResumePoint
from costguard.jobs.decide.view import JobView
from costguard.jobs.rows import agenda, attempts, job_events, job_rows, takeover_rows
from costguard.jobs.rows.recovery import drills, interruptions
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.event import Event
from costguard.model.job import Job, JobState
from costguard.model.money import Priced, priced_text


@dataclass(frozen=True, slots=True)
class EndAttemptNote(JobNote):
    attempt: Attempt
    action: EndAttempt

    def write(self, connection: Connection, now: datetime) -> bool:
        changed = end(connection, self.job, self.attempt, self.action.outcome, self.action.reason, now)
        if changed and self.action.interruption is not None:
            interruptions.add(connection, self.action.interruption)
        return changed


@dataclass(frozen=True, slots=True)
class RestAttemptNote(JobNote):
    """Notes that its VM has stopped, or is stopped now; it keeps its disk and is restarted."""

    attempt: Attempt
    action: RestAttempt

    def write(self, connection: Connection, now: datetime) -> bool:
        there = (AttemptState.ASKED, AttemptState.BOOTING, AttemptState.RUNNING, AttemptState.RESTARTING)
        changed = attempts.change(
            connection,
            self.attempt.id,
            there,
            state=AttemptState.RESTING,
            stop_asked_at=None,
            stop_why="",
            rested_at=None,
            tries=0,
            try_after=None,
            error="",
        )
        if changed:
            interruption = self.action.interruption
            interruptions.add(connection, interruption)
            events = job_events.rested(self.job, self.attempt, interruption.run, self.action.reason, now)
            audit_log.append(connection, [events], now)
        return changed


@dataclass(frozen=True, slots=True)
class LetBeginNote:
    """The agent of a VM that stands by hears with the answer to its next word what its command begins with."""

    view: JobView
    attempt: Attempt
    point: ResumePoint

    @property
    def subject(self) -> str:
        return self.view.job.id

    def write(self, connection: Connection, now: datetime) -> bool:
        job, point = self.view.job, self.point
        if not agenda.is_open(connection, job.id):
            return False
        if not takeover_rows.release(connection, self.attempt, point.resume_from, point.step, point.why, now):
            return False
        begins = replace(
            self.attempt,
            resume_from=point.resume_from,
            resume_step=point.step,
            resume_why=point.why,
            released_at=now,
        )
        reckon(connection, self.view, begins, point, now)
        interruptions.set_requested(connection, job.id, now)
        audit_log.append(connection, [job_events.takes_over(job, begins, now)], now)
        return True


@dataclass(frozen=True, slots=True)
class StopCommandNote(JobNote):
    """The agent hears it with the answer to its next word. Nothing takes the place of a cancel."""

    attempt: Attempt
    action: TellCommandToStop

    def write(self, connection: Connection, now: datetime) -> bool:
        asked_at, before = self.attempt.stop_asked_at, self.attempt.stop_why
        if asked_at is not None and (before == self.action.why or before == "cancel"):
            return False
        return attempts.change(
            connection, self.attempt.id, OPEN, stop_asked_at=asked_at or now, stop_why=self.action.why
        )


@dataclass(frozen=True, slots=True)
class CancelNote(JobNote):
    """A cancel that waited for a checkpoint: from now on it is as any other."""

    action: CancelAfterCheckpoint

    def write(self, connection: Connection, now: datetime) -> bool:
        if not job_rows.take_cancel_due(connection, self.job, self.action.by, self.action.reason, now):
            return False
        audit_log.append(connection, [job_events.cancel_is_due(self.job, self.action.by, self.action.reason, now)], now)
        return True


@dataclass(frozen=True, slots=True)
class JobStateNote(JobNote):
    """Notes the state of a job from now on. A job that is over stays so, whatever was decided meanwhile."""

    state: JobState
    reason: str
    next_at: datetime | None
    cost: Priced
    waits_in: int | None = None  # the episode in which it waits for a place; None: it does not

    def write(self, connection: Connection, now: datetime) -> bool:
        if not job_rows.set_state(connection, self.job.id, self.state, self.reason, self.next_at, now):
            return False
        events = self.waits(now)
        if self.state.is_over:
            cost = priced_text(self.cost, nothing="")
            drills.give_up(connection, self.job.id, now)
            events.append(job_events.over(self.job, self.state, self.reason, cost, now))
        if events:
            audit_log.append(connection, events, now)
        return self.state is not self.job.state

    def waits(self, now: datetime) -> list[Event]:
        if self.waits_in is None or self.state.is_over:
            return []
        return [job_events.waits(self.job, self.waits_in, self.reason, now)]


@dataclass(frozen=True, slots=True)
class SameStatesNote:
    """Notes the reasons of jobs whose states stand, and when each is looked at next: for all jobs together.

    A job that is over stays as it is.
    """

    notes: Sequence[JobStateNote]

    @property
    def subject(self) -> str:
        return self.notes[0].subject

    def write(self, connection: Connection, now: datetime) -> bool:
        still_open = job_rows.still_open(connection, [note.job.id for note in self.notes])
        notes = [note for note in self.notes if note.job.id in still_open]
        job_rows.set_reasons(connection, {note.job.id: (note.reason, note.next_at) for note in notes})
        audit_log.append(connection, [event for note in notes for event in note.waits(now)], now)
        return False


def together(notes: Sequence[Note]) -> list[Note]:
    """Merges the notes of jobs whose states stand into one, which comes first. A note of another kind stays alone."""
    same = [note for note in notes if isinstance(note, JobStateNote) and note.state is note.job.state]
    if len(same) < 2:
        return list(notes)
    mine = {id(note) for note in same}
    return [SameStatesNote(same), *(note for note in notes if id(note) not in mine)]


_SOON = timedelta(seconds=5)
_NO_ROOM = frozenset({Outcome.STOCKOUT, Outcome.QUOTA})


def of_decision(
    view: JobView, decision: JobDecision, points: Mapping[str, ResumePoint], means: LaunchContext, now: datetime
) -> tuple[list[Note], list[Step]]:
    """Returns the notes and steps of a decision.

    The job's state comes first, so that a failure to act never hides it.
    """
    job = view.job
    notes: list[Note] = [standing] if (standing := _standing(view, decision)) is not None else []
    attempts_by_id = {seen.attempt.id: seen.attempt for seen in view.attempts}
    if view.standby is not None:
        attempts_by_id[view.standby.attempt.id] = view.standby.attempt
    point = points.get(job.id, FROM_THE_BEGINNING)
    actions, steps = group_steps.parted(view, decision.actions, attempts_by_id, point, means)
    for action in actions:
        match action:
            case LaunchAttempt():
                steps.append(InsertStep(means, view, action, point))
            case MakePlacementPolicy():
                steps.append(MakePolicyStep(means, job, action.region))
            case AskAgain():
                steps.append(_again(means, job, attempts_by_id[action.attempt_id], action.only_looks))
            case RestartVm():
                steps.append(StartStep(means, job, attempts_by_id[action.attempt_id], action))
            case StopVm():
                steps.append(StopStep(means, job, attempts_by_id[action.attempt_id]))
            case DeleteVm():
                steps.append(DeleteStep(means, job, attempts_by_id[action.attempt_id]))
            case EndAttempt():
                notes.append(EndAttemptNote(job, attempts_by_id[action.attempt_id], action))
            case RestAttempt():
                notes.append(RestAttemptNote(job, attempts_by_id[action.attempt_id], action))
            case CancelAfterCheckpoint():
                notes.append(CancelNote(job, action))
            case LetBegin():
                notes.append(LetBeginNote(view, attempts_by_id[action.attempt_id], point))
            case LetRoundBegin():
                members = [attempts_by_id[number] for number in action.attempt_ids]
                notes.append(LetRoundBeginNote(view, members, action, point))
            case NextRound():
                notes.append(NextRoundNote(job, action))
            case TellCommandToStop():
                notes.append(StopCommandNote(job, attempts_by_id[action.attempt_id], action))
            case _:
                raise TypeError(f"{type(action).__name__} is not decided about a job")
    steps += [
        WatchInsertStep(means, job, attempt) for attempt in attempts_by_id.values() if _speaks_early(attempt, now)
    ]
    return notes, steps


def _speaks_early(attempt: Attempt, now: datetime) -> bool:
    """Says whether its agent was heard while Google is still thought to make its VM: that is looked at now rather than
    later.
    """
    is_later = attempt.try_after is not None and attempt.try_after - now > _SOON and not attempt.vm_group
    return attempt.state in (AttemptState.ASKED, AttemptState.WAITING) and attempt.agent.at is not None and is_later


def _again(means: LaunchContext, job: Job, attempt: Attempt, only_looks: bool) -> Step:
    if attempt.state is AttemptState.INTENDED:
        return RepeatInsertStep(means, job, attempt, only_looks)
    if attempt.state is AttemptState.RESTARTING:
        return WatchStartStep(means, job, attempt) if attempt.operation else StartStep(means, job, attempt)
    return WatchInsertStep(means, job, attempt)


def _standing(view: JobView, decision: JobDecision) -> JobStateNote | None:
    """Returns the new state; None where it stands as it did.

    When a running job is looked at next is internal, and not recorded.
    """
    job = view.job
    if job.state.is_over:
        return None
    same = (job.state, job.reason) == (decision.state, decision.reason)
    moved = not decision.actions and job.next_at != decision.next_at and decision.state is not JobState.RUNNING
    if same and not moved:
        return None
    return JobStateNote(job, decision.state, decision.reason, decision.next_at, view.cost, _episode(view, decision))


def _episode(view: JobView, decision: JobDecision) -> int | None:
    """Returns the number of its wait for a place: one more after each VM that it had.

    None: it does not wait for one.
    """
    asks = any(isinstance(action, LaunchAttempt | RestartVm | StopVm) for action in decision.actions)
    if asks or decision.state not in (JobState.QUEUED, JobState.RECOVERING):
        return None
    last = view.last.attempt if view.last is not None else None
    is_full = last is not None and (last.outcome in _NO_ROOM or (last.state is AttemptState.RESTING and last.error))
    if not is_full and not view.hold and not view.over_limit:
        return None
    return sum(1 + seen.attempt.restarts for seen in view.attempts if seen.attempt.made_at is not None)
