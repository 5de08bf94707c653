"""Builds the turn of the schedules: what submits their jobs is loaded for the first run that is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.model.ports import Clock
from costguard.schedules.turn import SchedulesTurn
from costguard.settings import Settings

if TYPE_CHECKING:
    from costguard.jobs.submit.submit import JobService


def schedules_turn(settings: Settings, rules: Rules, database: Database, clock: Clock, speed: float) -> SchedulesTurn:
    """The jobs that it submits are advanced by the next turn of the jobs."""

    def jobs() -> JobService:
        from costguard.main.job_services import job_services  # only here: most guards launch nothing by themselves

        return job_services(settings, rules, database, clock, speed, lambda: None, lambda: None).service

    return SchedulesTurn(database, clock, jobs)
