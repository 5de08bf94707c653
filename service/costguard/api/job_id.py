"""The job that a path names."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path
from sqlalchemy import Connection

from costguard.api.deps import Given
from costguard.api.fields import Text
from costguard.jobs.rows import job_rows


def named_job(connection: Connection, job: str | None) -> str | None:
    """The id of the job that a filter names. Raises Conflict."""
    return None if job is None else job_rows.id_of(connection, job)


def _named(
    deps: Given, job_id: Annotated[Text, Path(description="The job's id, such as j7k2m9q4, or its name.")]
) -> str:
    with deps.database.read() as connection:
        return job_rows.id_of(connection, job_id)


JobId = Annotated[str, Depends(_named)]  # also where the path has its name
