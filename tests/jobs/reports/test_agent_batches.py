"""Reports of many agents in one transaction come to what each of them alone would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.errors import Forbidden
from costguard.jobs.reports.agent_events import AgentEvent, AgentEvents, AgentReport, AgentTokens, EventsAnswer
from costguard.jobs.rows.recovery import drills
from costguard.model.attempt import AttemptState, attempt_name
from costguard_vm.diagnosis.signals import GpuSignals, Minute, as_json


class Clock:
    def now(self) -> Any:
        return NOW


def events(database: Database, woken: list[str]) -> AgentEvents:
    return AgentEvents(database, Clock(), AgentTokens(b"k" * 32), lambda: woken.append("woken"))


def report(job: str, seq: int, kind: str, **fields: Any) -> AgentReport:
    event = AgentEvent(seq, kind, NOW - timedelta(seconds=5), {"run": 1, **fields})
    return AgentReport(attempt_name(job, 1), (event,), NOW)


ACTIVE, IDLE = (Minute(seconds=60.0, gpus=(GpuSignals(kernel_active=share),)) for share in (0.95, 0.05))


def measured(job: str, seq: int, minutes: int, minute: Minute) -> AgentReport:
    """Makes a report of an agent at so many minutes from now."""
    event = AgentEvent(seq, "activity", NOW + timedelta(minutes=minutes), {"run": 1, "minute": as_json(minute)})
    return AgentReport(attempt_name(job, 1), (event,), NOW)


def points(job: str, number: int, seq: int, *losses: float) -> AgentReport:
    one = {"at": NOW.isoformat(), "unit": "step", "done": seq, "phase": "train"}
    event = AgentEvent(seq, "progress", NOW, {"run": 1, "points": [{**one, "loss": loss} for loss in losses]})
    return AgentReport(attempt_name(job, number), (event,), NOW)


REPORTS = (
    report("j1", 1, "start", started_at=NOW.isoformat()),
    report("j2", 1, "heartbeat", is_running=True, step=7, output=["step 7"], machine={"cpu": 0.5}),
    report("j1", 2, "heartbeat", is_running=True, step=3),
    report("j3", 1, "exit", reason="exited", code=0, ended_at=NOW.isoformat()),
    report(
        "j2", 2, "progress", points=[{"at": NOW.isoformat(), "unit": "step", "done": 7, "phase": "train", "loss": 2}]
    ),
    report("j1", 2, "heartbeat", is_running=True, step=99),  # its number was heard before
    report("j3", 2, "heartbeat", is_running=False, step=4, phase="publishing"),
    report("j4", 1, "start", started_at=(NOW - timedelta(hours=1)).isoformat()),
    *(measured("j4", seq, seq - 30, ACTIVE) for seq in range(10, 17)),  # a window of five minutes, and two
    *(measured("j2", seq, seq - 5, IDLE) for seq in (3, 4)),
    measured("j2", 4, -1, IDLE),  # once more
    points("j4", 1, 20, 5.0, 4.0),
    points("j4", 2, 6, 3.0),  # of another VM of the job
    points("j2", 1, 20, 1.5),
)


def stored(database: Database) -> Sequence[Any]:
    """Returns stored rows without the numbers that the database chose."""
    rows: list[Any] = []
    with database.read() as connection:
        for table, *order in (
            (tables.attempts, "name"),
            (tables.progress_points, "job_id", "id"),
            (tables.activity_minutes, "attempt_id", "at"),
            (tables.job_bounds, "job_id", "id"),
        ):
            columns = [column for column in table.c if column.name not in ("id", "attempt_id")]
            rows += connection.execute(select(*columns).order_by(*(table.c[name] for name in order))).all()
    return rows


def fill(database: Database) -> None:
    with database.write() as connection:
        for job in ("j1", "j2", "j3", "j4"):
            made = job_rows.added(connection, job)
            job_rows.attempt(connection, job, state=AttemptState.BOOTING)
        job_rows.attempt(connection, "j4", number=2, state=AttemptState.RUNNING)
        drills.add(connection, replace(made, id="j2"), "ada", NOW)


def test_a_batch_stores_what_single_reports_store(database: Database) -> None:
    """A batch stores the same, also where one attempt reports twice in it; every report gets the same answer."""
    fill(database)
    together = events(database, []).hear_all(REPORTS)
    as_one = stored(database)
    with database.write() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            if table.name in {
                "attempts",
                "jobs",
                "drills",
                "progress_points",
                "events",
                "activity_minutes",
                "job_bounds",
            }:
                connection.execute(table.delete())
    fill(database)
    alone = events(database, [])
    answers = [alone.hear_all([one])[0] for one in REPORTS]
    assert together == answers
    assert together[1] == EventsAnswer(False, 1, drill=1)
    assert as_one == stored(database)
    with database.read() as connection:
        assert connection.execute(select(tables.job_bounds.c.job_id, tables.job_bounds.c.windows)).all() == [("j4", 1)]


def test_a_report_of_no_attempt_leaves_the_others(database: Database) -> None:
    """A report's token may be right though the attempt's row is gone with a restored database.

    The daemon is woken once.
    """
    fill(database)
    woken: list[str] = []
    unknown = report("j9", 1, "start")
    first, refused, last = events(database, woken).hear_all([REPORTS[0], unknown, REPORTS[3]])
    assert isinstance(refused, Forbidden)
    assert (first, last) == (EventsAnswer(False, 1), EventsAnswer(False, 1))
    assert woken == ["woken"]


def test_a_batch_that_fails_stores_nothing(database: Database) -> None:
    """A failed batch stores nothing, not even reports before the one that failed."""
    fill(database)
    before = stored(database)
    hopeless = replace(REPORTS[2], events=(replace(REPORTS[2].events[0], at=NOW.replace(tzinfo=None)),))
    with pytest.raises(Exception, match=r"naive"):
        events(database, []).hear_all([REPORTS[0], REPORTS[1], hopeless])
    assert stored(database) == before
