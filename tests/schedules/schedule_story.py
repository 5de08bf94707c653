"""A nightly schedule in a ledger: one run has succeeded, one was skipped, one was missed, and one runs."""

from __future__ import annotations

from datetime import timedelta

from tests.jobs.job_service import JobSetup, asked

from costguard.jobs.rows import job_rows
from costguard.jobs.submit.submission import Submission
from costguard.model.job import CheckpointPlan, JobState
from costguard.schedules.runs import ScheduleOrder
from costguard.schedules.schedule import Schedule
from costguard.schedules.turn import SchedulesReport, SchedulesTurn

ID = "c7k2m9q4"
DAY = timedelta(days=1)


def template(**changed: object) -> Submission:
    """A training with checkpoints of each day."""
    plan = CheckpointPlan("gs://lab/nightly/{date}", "--from {checkpoint}", uploads_itself=True)
    return asked(None, **{"command": ("python", "train.py", "--day", "{date}"), "checkpoint": plan, **changed})


def order(**changed: object) -> ScheduleOrder:
    """Every day at 02:00 in Berlin."""
    values = {"template": template(), "every": "day", "at": "02:00", "time_zone": "Europe/Berlin", "name": "nightly"}
    return ScheduleOrder(**{**values, **changed})  # type: ignore[arg-type]


def turn(office: JobSetup) -> SchedulesReport:
    return SchedulesTurn(office.database, office.clock, lambda: office.it).run()


def to_due(office: JobSetup, schedule: Schedule, days: int = 0) -> None:
    """Moves the clock to a few seconds after a due time."""
    assert schedule.next_due is not None
    office.clock.moment = schedule.next_due + days * DAY + timedelta(seconds=3)


def settle(office: JobSetup, job_id: str, state: JobState) -> None:
    with office.database.write() as connection:
        job_rows.set_state(connection, job_id, state, f"it {state.value}", None, office.clock.now())


def tell(office: JobSetup) -> Schedule:
    """The clock stands where it stood before: the schedule is four days old."""
    now, before = office.clock.now(), office.schedule_ids
    office.clock.moment = now - 4 * DAY
    office.schedule_ids = iter((ID,))
    schedule, _ = office.schedules.create(order(), None, "cli")
    office.schedule_ids, ids = before, office.ids
    office.ids = iter(("cm1", "cm2"))
    to_due(office, schedule)
    turn(office)
    settle(office, "cm1", JobState.SUCCEEDED)
    to_due(office, schedule, 2)
    turn(office)
    to_due(office, schedule, 3)
    turn(office)
    office.ids = ids
    office.clock.moment = now
    return schedule
