"""A job whose VMs take an input by way of a stage, and what they report."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.db.transaction import Database
from costguard.ledger import projects
from costguard.model.attempt import AttemptState
from costguard.model.data import StageRules
from costguard.model.job import JobInput
from costguard.model.money import Money
from costguard.stages import stage_rows
from costguard.stages.stage import DataStage, StageReport, StageState

RULES = StageRules("gs://acme-stage", "us-central1")
ADDRESS = "gs://acme-stage/costguard/stage"
SOURCE = "s3://acme-data/v7"
DIGEST = "4f0e19a2c7" + "0" * 54
SIZE = 100 << 30
INPUTS = (JobInput(SOURCE, "/data", Money.of(9), staged=True),)
REPORT = StageReport(DIGEST, ADDRESS, SOURCE, SIZE, 7, from_source=0, staged=0)
STAGE = DataStage(DIGEST, ADDRESS, SOURCE, SIZE, 7, NOW, NOW)


def tell(database: Database) -> None:
    """Records a whole stage that a job uses, and one that no job uses."""
    with database.write() as connection:
        whole = replace(STAGE, state=StageState.WHOLE, staged=SIZE, whole_at=NOW, made_at=NOW - timedelta(days=3))
        stage_rows.save(connection, whole, is_new=True)
        old = replace(whole, digest="b7" * 32, source="s3://acme-data/v6", used_at=NOW - timedelta(days=2))
        stage_rows.save(connection, old, is_new=True)
        stage_rows.use(connection, replace(REPORT, from_source=SIZE), "cg-j7k2m9q4-3", "j7k2m9q4", NOW)


def job(
    connection: Connection, job_id: str = "j1", vms: int = 2, started_at: datetime | None = None, **given: Any
) -> list[str]:
    """Adds a job with a staged input; returns the names of its attempts, the last of which runs."""
    if not projects.read_all(connection):
        rows.project(connection, "lab")
    job_rows.added(connection, job_id, **{"inputs": INPUTS, **given})
    names = []
    for number in range(1, vms + 1):
        state = AttemptState.RUNNING if number == vms else AttemptState.OVER
        more = {"started_at": started_at} if number == vms else {"ended_at": NOW}
        made = job_rows.attempt(connection, job_id, number, state=state, made_at=NOW, heard_at=NOW, **more)
        names.append(made.name)
    return names
