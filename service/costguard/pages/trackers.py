"""The runs of experiment trackers on a job's page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costguard.model.tracker import TrackedRun
from costguard.pages.page import Source
from costguard.trackers import rows


def trackers_of_job(source: Source, job_id: str, now: datetime) -> Sequence[TrackedRun]:  # noqa: ARG001 as all sections
    """Returns the runs of trackers that it names, with the state of logging to them."""
    with source.database.read() as connection:
        return rows.of_job(connection, job_id)
