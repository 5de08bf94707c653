"""Jobs: asked for, listed, looked at, and cancelled."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Path, Response
from fastapi import Query as Parameter
from pydantic import Field

from costguard.access.roles import Actor
from costguard.api import cursors, job_mapping
from costguard.api import job_schemas as schemas
from costguard.api.deps import Deps, Given
from costguard.api.fields import Query, Text
from costguard.api.job_fields import CancelBody, DeleteDiskBody, JobBody
from costguard.api.route import routes
from costguard.api.writing import CHECKED, WRITTEN, Client, Key, acting, via_of
from costguard.errors import Missing
from costguard.jobs import attempts as stored_attempts
from costguard.jobs import job_rows as stored_jobs
from costguard.jobs import kept_disks, listing
from costguard.jobs.job_rows import JobFilters
from costguard.jobs.submit import JobService
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Permission, Principal
from costguard.model.attempt import Attempt
from costguard.model.job import JobKind, JobState
from costguard.web.office import open_office
from costguard.web.problems import NOT_FOUND, ProblemError, problem
from costguard.web.who import Asker

router = routes("jobs")
acting_router = routes("jobs", Permission.JOBS)

_CURSOR = (int, str)
_LOGS = "/var/log/costguard"

JobId = Annotated[Text, Path(description="Such as j7k2m9q4.")]


class JobQuery(Query):
    state: list[JobState] = Field(default_factory=list)
    owner: list[Text] = Field(default_factory=list, max_length=100)
    preset: list[Text] = Field(default_factory=list, max_length=100)
    project: list[Text] = Field(default_factory=list, max_length=100)
    kind: list[JobKind] = Field(default_factory=list)
    open: bool | None = Field(None, description="true: those that are not over; false: those that are.")
    or_disk_kept: bool = Field(
        False, description="With open=true: also those that are over and whose disk is kept, which bills."
    )
    sort: Literal["newest", "oldest"] = Field("newest", description="By when they were asked for.")
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class OutputQuery(Query):
    attempt: int | None = Field(None, ge=1, le=1_000_000, description="Default: the latest that said anything.")


@acting_router.post(
    "/jobs",
    summary="Launch a job",
    operation_id="launchJob",
    status_code=HTTPStatus.CREATED,
    dependencies=[CHECKED],
    responses={
        200: {
            "description": "This key came with this body before: the job that was made then.",
            "model": schemas.JobDetail,
        },
        409: problem("This key came with another body before."),
        **WRITTEN,
    },
)
def submit(
    deps: Given, asker: Asker, body: JobBody, response: Response, key: Key = None, client: Client = ""
) -> schemas.JobDetail:
    """Takes it in, or says all that is wrong with it at once. Its VM is launched by the daemon, within seconds."""
    owner = owner_of(asker, body)
    made, is_new = office(deps).submit(body.submission(owner.address), key, via_of(client), owner.authority)
    if not is_new:
        response.status_code = HTTPStatus.OK
    response.headers["Location"] = f"/api/v1/jobs/{made.id}"
    return _detail(deps, made.id)


@router.get("/jobs", summary="Jobs", operation_id="listJobs")
def jobs(deps: Given, query: Annotated[JobQuery, Parameter()]) -> schemas.Jobs:
    """How each stands and why, what it came to, and where its VM is."""
    filters = JobFilters(
        state=tuple(query.state),
        owner=tuple(owner.lower() for owner in query.owner),
        preset=tuple(query.preset),
        project=tuple(query.project),
        kind=tuple(query.kind),
        open=query.open,
        or_disk_kept=query.or_disk_kept,
    )
    after = None
    if query.cursor is not None:
        micros, job_id = cursors.decode(query.cursor, f"jobs {query.sort}", _CURSOR)
        after = (cursors.moment(int(micros)), str(job_id))
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        oldest_first = query.sort == "oldest"
        found = listing.jobs_page(connection, accrual, filters, after, query.limit + 1, oldest_first=oldest_first)
        kept = kept_disks.in_all(connection, accrual)
    page = found[: query.limit]
    more = None
    if len(found) > query.limit:
        last = page[-1].job
        more = cursors.encode(f"jobs {query.sort}", cursors.micros(last.created_at), last.id)
    return schemas.Jobs(
        as_of=accrual.now,
        jobs=[job_mapping.job(row) for row in page],
        kept_disks=job_mapping.kept_in_all(kept),
        next_cursor=more,
    )


@router.get("/jobs/{job_id}", summary="One job with all its attempts", operation_id="getJob", responses=NOT_FOUND)
def job(deps: Given, job_id: JobId) -> schemas.JobDetail:
    """What was asked for, every VM that tried it, what interrupted them, and what comes next."""
    return _detail(deps, job_id)


@router.get(
    "/jobs/{job_id}/attempts", summary="The attempts of a job", operation_id="listAttempts", responses=NOT_FOUND
)
def attempts(deps: Given, job_id: JobId) -> schemas.Attempts:
    """Each is one VM; the first comes first."""
    found = _detail(deps, job_id)
    return schemas.Attempts(as_of=found.as_of, job=found.job.id, attempts=found.attempts)


@router.get("/jobs/{job_id}/output", summary="The last output of a job", operation_id="getOutput", responses=NOT_FOUND)
def output(deps: Given, job_id: JobId, query: Annotated[OutputQuery, Parameter()]) -> schemas.Output:
    """Kept with the attempt, also after its VM is gone."""
    with deps.database.read() as connection:
        if stored_jobs.read(connection, job_id) is None:
            raise _unknown(job_id)
        tried = stored_attempts.of_jobs(connection, [job_id]).get(job_id, [])
        if query.attempt is None:
            wanted = listing.heard_last(tried)
        else:
            wanted = next((each for each in tried if each.number == query.attempt), None)
            if wanted is None:
                raise ProblemError(
                    HTTPStatus.NOT_FOUND,
                    f"Job {job_id} has no attempt {query.attempt}.",
                    f"It has {len(tried)} so far: GET /api/v1/jobs/{job_id}/attempts.",
                )
        whole = None if wanted is None else stored_attempts.read(connection, wanted.id)
    return schemas.Output(
        as_of=deps.clock.now(),
        job=job_id,
        attempt=None if whole is None else whole.number,
        heard_at=None if whole is None else whole.agent.at,
        output="" if whole is None else whole.agent.output,
        log="" if whole is None or _is_gone(whole) else f"{_LOGS}/{whole.name}.{max(whole.agent.run, 1)}.log",
    )


@acting_router.post(
    "/jobs/{job_id}/cancel",
    summary="Cancel a job",
    operation_id="cancelJob",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses={
        200: {"description": "It was cancelled, or that was asked for, before.", "model": schemas.JobDetail},
        409: problem("It is over already."),
        **NOT_FOUND,
        **WRITTEN,
    },
)
def cancel(deps: Given, asker: Asker, job_id: JobId, body: CancelBody, response: Response) -> schemas.JobDetail:
    """Writes it down. The daemon gives its command its notice, and deletes its VM after that.

    Where the job saves on its VM's own disk, the VM is stopped instead and its disk kept, which bills: unless
    `delete_disk` agrees that all that was saved there is lost.
    """
    by = acting(asker, body.by, "by")
    _, is_new = office(deps).cancel(job_id, by.address, body.reason, by.authority, delete_disk=body.delete_disk)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return _detail(deps, job_id)


@acting_router.post(
    "/jobs/{job_id}/delete-disk",
    summary="Delete the disk that is kept of a job",
    operation_id="deleteDisk",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses={
        200: {"description": "That was agreed to before.", "model": schemas.JobDetail},
        409: problem("No disk of it is kept, or the job is not over."),
        **NOT_FOUND,
        **WRITTEN,
    },
)
def delete_disk(
    deps: Given, asker: Asker, job_id: JobId, body: DeleteDiskBody, response: Response
) -> schemas.JobDetail:
    """Agrees that everything is lost that the job saved on its VM's own disk. The daemon deletes the VM with it."""
    by = acting(asker, body.by, "by")
    _, is_new = office(deps).delete_disk(job_id, by.address, by.authority)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return _detail(deps, job_id)


def owner_of(asker: Principal, body: JobBody) -> Actor:
    """Whose the job would be; nobody's where the master token names nobody, which is refused with all else."""
    if not asker.address and not body.owner.strip():
        return Actor("")
    return acting(asker, body.owner, "owner")


def office(deps: Deps) -> JobService:
    return open_office(deps.jobs)


def _detail(deps: Deps, job_id: str) -> schemas.JobDetail:
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        found = listing.job_detail(connection, accrual, job_id)
    if found is None:
        raise _unknown(job_id)
    return job_mapping.detail(found, accrual.now)


def _is_gone(attempt: Attempt) -> bool:
    """Its VM was deleted, or will be at once."""
    return attempt.gone_at is not None or attempt.delete_asked_at is not None


def _unknown(job_id: str) -> Missing:
    return Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all of them.")
