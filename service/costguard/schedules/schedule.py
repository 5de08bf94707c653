"""Schedules: jobs that are launched from a template at times in a time zone, and their runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class ScheduleState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"  # nothing is launched, and no time counts as missed
    ENDED = "ended"  # for good

    @property
    def is_over(self) -> bool:
        return self is ScheduleState.ENDED


class RunOutcome(StrEnum):
    """The outcome of a due time."""

    LAUNCHING = "launching"  # its job is being submitted; a trouble of this server's is tried again
    LAUNCHED = "launched"
    REFUSED = "refused"  # as a launch by hand would have been
    SKIPPED = "skipped"  # an earlier run was open
    MISSED = "missed"  # Costguard did not run then, or could not submit the job for too long


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The times of a schedule: five fields of cron in a time zone, such as "0 2 * * *" in Europe/Berlin."""

    cron: str
    time_zone: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it stands. `reason` is one sentence: why it is in its state, and what comes next."""

    id: str  # such as c7k2m9q4
    name: str
    owner: str
    project: str
    preset: str
    recurrence: Recurrence
    overlaps: bool  # whether a run is launched while an earlier one is open
    late: timedelta | None  # how late a run is still launched; None: half of the time to the next
    state: ScheduleState
    reason: str
    next_due: datetime | None  # None while it is paused, and once it has ended
    created_at: datetime
    via: str  # "api" or "cli"
    changed_by: str = ""  # the person who paused, resumed or ended it last

    @property
    def title(self) -> str:
        return self.name or self.id


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """A due time of a schedule with its outcome. `job_id` is "" where none was launched."""

    schedule_id: str
    due_at: datetime
    outcome: RunOutcome
    reason: str
    job_id: str = ""
    tried_at: datetime | None = None  # the last time that its submission failed by a trouble of this server's
    asked_by: str = ""  # the person who asked for it outside of the schedule's times
