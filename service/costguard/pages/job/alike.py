"""The cost of a job's script on each machine, as its page shows it."""

from __future__ import annotations

from datetime import datetime

from costguard.jobs.reports.alike import AlikeJobs, alike_jobs
from costguard.ledger.accrual import accrual_at
from costguard.pages.page import Source


def alike_of_job(source: Source, job_id: str, now: datetime) -> AlikeJobs | None:
    """Returns the comparison; None where its script ran on no other machine."""
    with source.database.read() as connection:
        answer = alike_jobs(connection, accrual_at(connection, now), job_id)
    return None if answer is None or len(answer.comparison.machines) < 2 else answer
