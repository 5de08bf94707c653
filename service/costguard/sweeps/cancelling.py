"""Cancels jobs of a sweep, as a cancel of each would."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection

from costguard.events import audit_log
from costguard.jobs.rows import job_rows
from costguard.jobs.submit.submit import cancel_asked, cancelling
from costguard.model.sweep import Sweep


def cancel_jobs(connection: Connection, sweep: Sweep, job_ids: Collection[str], now: datetime) -> int:
    """Cancels jobs, and returns how many are being cancelled because of it; those that were before, or are over, stay
    as they are.
    """
    count = 0
    for job in job_rows.of_ids(connection, job_ids).values():
        by, why = sweep.cancel_asked_by, f"with sweep {sweep.title}"
        if job_rows.ask_cancel(connection, job.id, by, cancelling(job, by, why, False), now):
            audit_log.append(connection, [cancel_asked(job, by, why, now)], now)
            count += 1
    return count
