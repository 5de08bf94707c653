"""Rows of schedules for tests of other rooms."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection
from tests.api.rows import NOW

from costguard.jobs.submit.submission import Submission
from costguard.model.job import JobKind, JobSpec
from costguard.schedules import schedule_rows
from costguard.schedules.schedule import Recurrence, Schedule, ScheduleState
from costguard.schedules.schedule_rows import Template


def added(connection: Connection, schedule_id: str, owner: str) -> Schedule:
    """A daily schedule that nothing was launched of yet; runs may overlap."""
    due_at, recurrence = NOW + timedelta(hours=14), Recurrence("0 2 * * *", "UTC")
    schedule = Schedule(
        schedule_id, "", owner, "lab", "t4", recurrence, True, None, ScheduleState.ACTIVE, "why", due_at, NOW, "api"
    )
    spec = JobSpec(JobKind.TRAINING, "t4", "lab", owner, command=("true",))
    schedule_rows.add(connection, schedule, Template(Submission(spec), None), None, "")
    return schedule
