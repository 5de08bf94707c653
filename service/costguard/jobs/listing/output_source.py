"""The stored output of one attempt of a job: which attempt, and where its output is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costguard.db.transaction import Database
from costguard.errors import CheckpointError, Invalid, Missing, Unavailable
from costguard.jobs.listing import jobs as listing
from costguard.jobs.listing import output as stored
from costguard.jobs.listing.output import OpenFolder, OutputPage
from costguard.jobs.rows import attempts as stored_attempts
from costguard.jobs.rows import job_rows
from costguard.model.attempt import Attempt
from costguard.model.job import Job
from costguard.model.ports import Archives
from costguard.model.reported.output import OutputPlace, output_folder
from costguard_vm.model.log_pattern import LogPattern


@dataclass(frozen=True, slots=True)
class OutputSource:
    """`attempt` is None while no agent has reported; `folder` is empty where the output is stored nowhere."""

    job: Job
    attempts: Sequence[Attempt]  # all of the job, without their outputs
    attempt: Attempt | None
    folder: str


def output_source(database: Database, logs: str, job_id: str, number: int | None) -> OutputSource:
    """Returns the output of an attempt by its number; None: the latest that reported. `logs` is the setting.

    Raises Missing.
    """
    with database.read() as connection:
        job = job_rows.read(connection, job_id)
        if job is None:
            raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all jobs.")
        tried = stored_attempts.of_jobs(connection, [job_id]).get(job_id, [])
        if number is None:
            wanted = listing.heard_last(tried)
        else:
            wanted = next((attempt for attempt in tried if attempt.number == number), None)
            if wanted is None:
                raise Missing(
                    f"Job {job_id} has no attempt {number}.",
                    f"It has {len(tried)} so far: GET /api/v1/jobs/{job_id}/attempts.",
                )
        attempt = None if wanted is None else stored_attempts.read(connection, wanted.id)
    folder = "" if attempt is None else output_folder(job.spec, attempt.name, logs)
    return OutputSource(job, tried, attempt, folder)


def opened(source: OutputSource, opener: OpenFolder | None) -> Archives:
    """Raises Missing where nothing is stored, with what would store it."""
    if source.attempt is None:
        raise Missing(f"Job {source.job.id} has not reported yet.", "Its output is stored once its command prints.")
    if not source.folder or opener is None:
        raise Missing(
            f"The whole output of job {source.job.id} is stored nowhere.",
            "Jobs with checkpoints in a bucket store it there; for others set [jobs] logs to a bucket's folder.",
        )
    return opener(source.folder)


def output_page(store: Archives, begin: str, search: str, most_lines: int) -> OutputPage:
    """Reads a page from `begin`, which is empty, `start`, or the next of an earlier page.

    Raises Invalid, Unavailable.
    """
    try:
        begins = OutputPlace(1, 0) if begin in ("", "start") else OutputPlace.parse(begin)
    except ValueError as wrong:
        raise Invalid(f"begin: {wrong}.", "Write start, or the next of an earlier answer.") from None
    try:
        pattern = LogPattern(search) if search else None
    except ValueError as wrong:
        raise Invalid(
            f"search: {search!r} is no regular expression that can be used ({wrong}).",
            "Write one without lookaround and back references, such as (?i)error.",
        ) from None
    try:
        return stored.page(store, begins, most_lines, pattern)
    except CheckpointError as error:
        raise Unavailable(error.message, error.what_next) from error
