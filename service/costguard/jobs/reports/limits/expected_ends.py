"""Estimates when running jobs end: by their plans, by the pace of their output, or by what their owners expect."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.jobs.reports.progress import progress
from costguard.jobs.rows import attempts, job_rows, plan_rows
from costguard.jobs.rows.progress import progress_rows
from costguard.model.attempt import Attempt
from costguard.model.job import Job, JobKind
from costguard.model.reported.progress import POSITION, SeriesPoint


def expected_ends(connection: Connection, job_ids: Collection[str], now: datetime) -> dict[str, datetime]:
    """Returns when each of these jobs is expected to end; jobs of which that is not known are left out."""
    jobs = job_rows.of_ids(connection, job_ids)
    tried = attempts.of_jobs(connection, list(jobs))
    plans = plan_rows.of_jobs(connection, jobs)
    positions = progress_rows.series_of_jobs(connection, list(jobs), POSITION)
    ends: dict[str, datetime] = {}
    for job_id, job in jobs.items():
        plan = plans[job_id].plan if job_id in plans else None
        planned = plan.finishes_at if plan is not None and job.spec.deadline is not None else None
        end = planned or _end(job, tried.get(job_id, []), positions.get(job_id, []), now)
        if end is not None:
            ends[job_id] = end
    return ends


def _end(job: Job, tried: Sequence[Attempt], points: Sequence[SeriesPoint], now: datetime) -> datetime | None:
    made = [one.made_at for one in tried if one.made_at is not None]
    if not made:
        return None
    if job.spec.kind is JobKind.DEV:
        return made[-1] + tried[-1].max_run  # then Google ends it, and it is not replaced
    seen = next((one.agent.progress for one in reversed(tried) if one.agent.progress is not None), None)
    left = progress.work_left(job, seen, points)
    if left is not None:
        return now + timedelta(seconds=round(left.likely_h * 3600))
    return None if job.spec.work is None else min(made) + job.spec.work
