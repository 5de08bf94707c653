"""Decisions of people on a hint about a job: stop it after its next checkpoint, or never mind. Stored requests."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.errors import Conflict, Forbidden, Missing
from costguard.events import audit_log
from costguard.jobs.reports.progress import curve_news
from costguard.jobs.rows import job_events, job_rows
from costguard.jobs.submit import submission
from costguard.model.job import Job


def cancel_after_checkpoint(
    connection: Connection, rules: Rules, job_id: str, by: Actor, now: datetime
) -> tuple[Job, bool]:
    """Cancels it once a checkpoint was written after this, or at once where nothing of it runs.

    The job, and whether this request is the first. Raises Missing, Forbidden, or Conflict.
    """
    job = theirs(connection, rules, job_id, by)
    if job.state.is_over:
        raise Conflict(
            f"Job {job.title} is over: it {job.state.value}.", "There is nothing to cancel.", kind="job-over"
        )
    if job.spec.checkpoint is None:
        raise Conflict(
            f"Job {job.title} saves no checkpoints that Costguard knows of.",
            f"Cancel it at once: costguard cancel {job.id}",
            kind="no-checkpoints",
        )
    is_new = job_rows.ask_cancel_after(connection, job_id, by.address, now)
    if is_new:
        audit_log.append(connection, [job_events.cancel_after(job, by.address, now)], now)
    return job_rows.read(connection, job_id) or job, is_new


def never_mind(connection: Connection, rules: Rules, job_id: str, by: Actor, now: datetime) -> tuple[Job, bool]:
    """Silences the hint at its standstill until a new best value, and takes a cancel after a checkpoint back.

    The job, and whether that changed anything. Raises Missing, Forbidden, or Conflict.
    """
    job = theirs(connection, rules, job_id, by, "silence a hint about")
    if job.state.is_over or job.cancel_asked_at is not None:
        over = "is being cancelled" if not job.state.is_over else f"is over: it {job.state.value}"
        raise Conflict(f"Job {job.title} {over}.", "Launch another like it to go on.", kind="job-over")
    is_new = job.cancel_after_at is not None or curve_news.hint_of(connection, job) is not None
    if is_new and job_rows.never_mind(connection, job_id, by.address, now):
        audit_log.append(connection, [job_events.never_mind(job, by.address, now)], now)
    return job_rows.read(connection, job_id) or job, is_new


def theirs(connection: Connection, rules: Rules, job_id: str, by: Actor, verb: str = "cancel") -> Job:
    """Raises Missing, or Forbidden where this person may not do that to it."""
    job = job_rows.read(connection, job_id)
    if job is None:
        raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all of them.")
    spec = job.spec
    if refusal := submission.cancel_refusal(by.address, spec.owner, spec.project, rules, by.authority, verb):
        raise Forbidden(refusal, "Ask one of them.", kind="not-yours")
    return job
