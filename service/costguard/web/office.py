"""Where jobs are asked for, over REST and on pages."""

from __future__ import annotations

from http import HTTPStatus

from costguard.jobs.submit import JobService
from costguard.web.problems import ProblemError


def open_office(jobs: JobService | None) -> JobService:
    """Raises a 503 problem where this server takes none."""
    if jobs is None:
        raise ProblemError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "This server takes no jobs.",
            "Ask the one that was started with `costguard serve`.",
        )
    return jobs
