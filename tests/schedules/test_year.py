"""A year of a nightly schedule over both changes of the clock, with outages and a guard that is killed."""

from __future__ import annotations

import random
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import select
from tests.jobs.job_service import JobSetup, priced
from tests.jobs.world import CrashPoint, FragileDatabase, Killed
from tests.schedules.schedule_story import order, settle, template, turn

from costguard.db.tables import jobs, schedule_runs
from costguard.events import audit_log
from costguard.model.job import JobState
from costguard.schedules.schedule import RunOutcome

NEW_YORK = ZoneInfo("America/New_York")
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAYS = 365


def test_each_due_run_of_a_year_has_one_outcome_and_at_most_one_job(sqlite_url: str) -> None:
    """Turns come at random moments, sometimes days apart; one in five is killed at a random commit; trainings take
    hours, some over a day. Each local day of the year has one due time with one outcome, each launched run one job that
    no other has, and each run that was not launched is in an event.
    """
    chosen = random.Random(7)
    with closing(FragileDatabase.open(sqlite_url)) as database:
        assert isinstance(database, FragileDatabase)
        office = JobSetup(priced(database))
        office.clock.moment = BEGIN
        office.schedules.create(
            order(template=template(checkpoint=None), at="02:30", time_zone="America/New_York"), None, "cli"
        )
        killed = 0
        while office.clock.moment < BEGIN + DAYS * timedelta(days=1):
            office.clock.advance(
                timedelta(hours=chosen.choice((1, 2, 3, 5, 8, 8, 30, 72)), seconds=chosen.random() * 60)
            )
            fuse = CrashPoint(chosen.randrange(1, 8) if chosen.random() < 0.2 else 0)
            try:
                turn(JobSetup(database.of_process(fuse), clock=office.clock, ids=office.ids))
            except Killed:
                killed += 1
            for job_id in _open(database):
                if chosen.random() < 0.5:
                    settle(office, job_id, chosen.choice((JobState.SUCCEEDED, JobState.FAILED)))
        with suppress(Killed):
            turn(office)
        with database.read() as connection:
            rows = list(connection.execute(select(schedule_runs).order_by(schedule_runs.c.due_at)))
            named = [row.name for row in connection.execute(select(jobs.c.name))]
            events = [stored.event for stored in audit_log.read(connection, limit=10_000)]
    local = [row.due_at.astimezone(NEW_YORK) for row in rows]
    first = local[0].date()
    assert [moment.date() for moment in local] == [first + timedelta(days=day) for day in range(len(rows))]
    assert len(rows) >= DAYS - 4
    launched = [row for row in rows if row.outcome == RunOutcome.LAUNCHED]
    assert len({row.job_id for row in launched}) == len(launched) == len(named) == len(set(named))
    assert {row.outcome for row in rows} == {"launched", "skipped", "missed"}
    announced = {due for event in events if event.kind == "ScheduleRunMissed" for due in event.data["due"]}  # type: ignore[attr-defined]
    assert announced == {row.due_at.isoformat() for row in rows if row.outcome != RunOutcome.LAUNCHED}
    assert killed > 10
    assert [f"{moment:%m-%d %H:%M}" for moment in local if f"{moment:%H:%M}" != "02:30"] == ["03-08 03:00"]


def _open(database: FragileDatabase) -> list[str]:
    with database.read() as connection:
        return list(connection.scalars(select(jobs.c.id).where(jobs.c.state == "queued").order_by(jobs.c.id)))
