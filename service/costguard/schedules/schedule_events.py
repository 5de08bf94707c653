"""The events of schedules: one sentence each, for the audit log and messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costguard.model.event import Event, new_event
from costguard.model.moments import utc_text
from costguard.model.words import count_text
from costguard.schedules.recurrence import in_words
from costguard.schedules.schedule import Schedule, ScheduleRun, ScheduleState

_CHANGES = {
    ScheduleState.ACTIVE: ("ScheduleResumed", "resumed"),
    ScheduleState.PAUSED: ("SchedulePaused", "paused"),
    ScheduleState.ENDED: ("ScheduleEnded", "ended"),
}


def created(schedule: Schedule, warnings: Sequence[str]) -> Event:
    first = f"; the first run is due at {utc_text(schedule.next_due)}" if schedule.next_due is not None else ""
    more = "".join(f" {warning}" for warning in warnings)
    text = (
        f"A schedule, {schedule.title}, was created by {schedule.owner}: a job on {schedule.preset} "
        f"{in_words(schedule.recurrence)}{first}.{more}"
    )
    return _of(schedule, "ScheduleCreated", schedule.created_at, text, "created", schedule.owner)


def changed(schedule: Schedule, state: ScheduleState, by: str, now: datetime) -> Event:
    kind, verb = _CHANGES[state]
    return _of(schedule, kind, now, f"{by} {verb} schedule {schedule.title}.", f"{verb}/{now.isoformat()}", by)


def launched(schedule: Schedule, run: ScheduleRun, now: datetime) -> Event:
    by = f", as {run.asked_by} asked" if run.asked_by else ""
    text = f"Schedule {schedule.title} launched job {run.job_id} for {utc_text(run.due_at)}{by}."
    data = {"job": run.job_id, "due_at": run.due_at.isoformat()}
    return _of(schedule, "ScheduleRunLaunched", now, text, _what(run), run.asked_by, **data)


def refused(schedule: Schedule, run: ScheduleRun, now: datetime) -> Event:
    text = f"The run of schedule {schedule.title} that was due at {utc_text(run.due_at)} was refused: {run.reason}"
    return _of(schedule, "ScheduleRunRefused", now, text, _what(run), run.asked_by, due_at=run.due_at.isoformat())


def missed(schedule: Schedule, runs: Sequence[ScheduleRun], more: int, now: datetime) -> Event:
    """Describes runs that were missed, or skipped, together: `runs`, the oldest first, and `more` before them."""
    newest = runs[-1]
    count = len(runs) + more
    until = utc_text(newest.due_at)
    if count == 1:
        what = f"The run of schedule {schedule.title} that was due at {until} was {newest.outcome.value}"
    else:
        what = f"{count_text(count, 'run')} of schedule {schedule.title} up to {until} were {newest.outcome.value}"
    text = f"{what}: {newest.reason}"
    due = [run.due_at.isoformat() for run in runs]
    return _of(schedule, "ScheduleRunMissed", now, text, _what(newest), due=due, count=count)


def _what(run: ScheduleRun) -> str:
    return f"{run.outcome.value}/{run.due_at.isoformat()}"


def _of(schedule: Schedule, kind: str, at: datetime, text: str, what: str, actor: str = "", **data: object) -> Event:
    named = {"schedule": schedule.id, **data}
    return new_event(kind, at, text, schedule.id, what, project=schedule.project, actor=actor, data=named)
