"""The hint on a job's page that its metric seems to stand still."""

from __future__ import annotations

from datetime import datetime

from costguard.jobs.reports.curve_news import Standstill, hint_of
from costguard.jobs.rows import job_rows
from costguard.pages.page import Source


def standstill_of_job(source: Source, job_id: str, now: datetime) -> Standstill | None:  # noqa: ARG001 one of several
    """Returns the hint; None where there is nothing to hint at, or a user has decided."""
    with source.database.read() as connection:
        job = job_rows.read(connection, job_id)
        return hint_of(connection, job) if job is not None else None
