"""The warning on a job's page that what it saves is recognised by no layout."""

from __future__ import annotations

from datetime import datetime

from costguard.events import audit_log
from costguard.jobs.rows import attempts, job_rows
from costguard.pages.page import Source


def unrecognised_of_job(source: Source, job_id: str, now: datetime) -> str:  # noqa: ARG001 one of several
    """Returns the options to launch it with, as its latest attempt was warned of; "" where a complete checkpoint was
    seen since.
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
