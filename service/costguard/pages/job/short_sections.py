"""Five sections of a job's page: hints at a standstill, at unknown checkpoints and at its checkpoint interval, its runs
in trackers, and executions of workflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costguard.events import audit_log
from costguard.jobs.decide.checkpoints.save_advice import SaveAdvice
from costguard.jobs.reports.checkpoints import save_interval
from costguard.jobs.reports.progress.curve_news import Standstill, hint_of
from costguard.jobs.rows import attempts, job_rows
from costguard.model.delivery.tracker import TrackedRun
from costguard.pages.page import Source
from costguard.spend.workflows.executions import ExecutionName, names_of_job
from costguard.trackers import rows


def standstill_of_job(source: Source, job_id: str, now: datetime) -> Standstill | None:  # noqa: ARG001 as all sections
    """Returns the hint that its metric stands still; None where there is none, or a user has decided."""
    with source.database.read() as connection:
        job = job_rows.read(connection, job_id)
        return hint_of(connection, job) if job is not None else None


def trackers_of_job(source: Source, job_id: str, now: datetime) -> Sequence[TrackedRun]:  # noqa: ARG001 as all sections
    """Returns the runs of trackers that it names, with the state of logging to them."""
    with source.database.read() as connection:
        return rows.of_job(connection, job_id)


def unrecognised_of_job(source: Source, job_id: str, now: datetime) -> str:  # noqa: ARG001 as all sections
    """Returns the options to launch it with, as its latest attempt was warned that no layout recognises what it saves;
    "" where a complete checkpoint was seen since.
    """
    with source.database.read() as connection:
        job = job_rows.read(connection, job_id)
        seen = job_rows.checkpoint(connection, [job_id]).get(job_id)
        last = attempts.of_jobs(connection, [job_id]).get(job_id, [])[-1:]
        if job is None or job.state.is_over or not last or not last[0].gce_id or (seen and seen.resume_from):
            return ""
        project, gce_id = last[0].project, last[0].gce_id
        warned = audit_log.read(connection, kind="CheckpointsUnrecognised", project=project, gce_id=gce_id, limit=1)
    return str(warned[0].event.data["files"]) if warned else ""


def save_interval_of_job(source: Source, job_id: str, now: datetime) -> SaveAdvice | None:
    """Returns the checkpoint interval in use next to the best; None where there is nothing to say."""
    with source.database.read() as connection:
        return save_interval.advice_of(connection, now, job_id)


def executions_of_job(
    source: Source,
    job_id: str,
    now: datetime,  # noqa: ARG001 as all sections
) -> Sequence[ExecutionName]:
    """Returns the executions of workflows that it is a part of."""
    with source.database.read() as connection:
        return names_of_job(connection, job_id, source.rules.workflow_labels)
