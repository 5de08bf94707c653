"""Short sections of a job's page: other machines, lineage, hints, runs in trackers, and executions of workflows."""

from __future__ import annotations

from costguard.events import audit_log
from costguard.jobs.listing.lineage import Lineage, lineage_of
from costguard.jobs.reports.alike import AlikeJobs, alike_jobs
from costguard.jobs.reports.progress.curve_news import Standstill, hint_of
from costguard.jobs.rows import attempts, job_rows
from costguard.pages.page import ShownJob


def alike_jobs_of(shown: ShownJob) -> AlikeJobs | None:
    """Returns the cost of its script on each machine; None where it ran on no other one."""
    answer = alike_jobs(shown.connection, shown.accrual, shown.id)
    return None if answer is None or len(answer.comparison.machines) < 2 else answer


def lineage_of_job(shown: ShownJob) -> Lineage | None:
    """Returns what it started from and what started from it; None where it stands alone."""
    lineage = lineage_of(shown.connection, shown.accrual, shown.id)
    return None if lineage is None or lineage.is_alone else lineage


def standstill_of_job(shown: ShownJob) -> Standstill | None:
    """Returns the hint that its metric stands still; None where there is none, or a user has decided."""
    job = job_rows.read(shown.connection, shown.id)
    return hint_of(shown.connection, job) if job is not None else None


def unrecognised_of_job(shown: ShownJob) -> str:
    """Returns the options to launch it with, as its latest attempt was warned that no layout recognises what it saves;
    "" where a complete checkpoint was seen since.
    """
    connection, job_id = shown.connection, shown.id
    job = job_rows.read(connection, job_id)
    seen = job_rows.checkpoint(connection, [job_id]).get(job_id)
    last = attempts.of_jobs(connection, [job_id]).get(job_id, [])[-1:]
    if job is None or job.state.is_over or not last or not last[0].gce_id or (seen and seen.resume_from):
        return ""
    project, gce_id = last[0].project, last[0].gce_id
    warned = audit_log.read(connection, kind="CheckpointsUnrecognised", project=project, gce_id=gce_id, limit=1)
    return str(warned[0].event.data["files"]) if warned else ""
