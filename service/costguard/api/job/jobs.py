"""Jobs: launched, listed, viewed, and cancelled."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Query as Parameter
from fastapi import Response
from pydantic import Field

from costguard.access.roles import Actor
from costguard.api import cursors
from costguard.api.deps import Deps, Given
from costguard.api.fields import Query, Text
from costguard.api.goodput import GoodputOut
from costguard.api.job.attempts_shown import InterruptionOut, attempt_out
from costguard.api.job.bodies import CancelBody, DeleteDiskBody, DrillBody, JobBody, NeverMindBody
from costguard.api.job.plan import plan_out
from costguard.api.job.progress import ProgressOut
from costguard.api.job.save_interval import SaveIntervalOut
from costguard.api.job.schemas import (
    AtRiskOut,
    AttemptsResponse,
    CheckpointOut,
    DrillOut,
    JobOut,
    JobResponse,
    JobsResponse,
    KeptDisksOut,
    RoundOut,
    StandstillOut,
    TrackedRunOut,
)
from costguard.api.job_id import JobId
from costguard.api.route import CHECKED, NOT_FOUND, WRITTEN, Client, Key, acting, problem, routes, via_of
from costguard.errors import Missing
from costguard.jobs.listing import jobs as listing
from costguard.jobs.reports import diagnosis
from costguard.jobs.reports.checkpoints import save_interval
from costguard.jobs.reports.progress import curve_news
from costguard.jobs.reports.progress.progress import job_progress
from costguard.jobs.rows import kept_disks, plan_rows
from costguard.jobs.rows.job_rows import JobFilters
from costguard.jobs.submit.submit import available_service
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Permission, Principal
from costguard.model.job import JobKind, JobState
from costguard.spend import goodput_rows
from costguard.trackers import rows as tracker_rows
from costguard.web.permissions import Asker

router = routes("jobs")
acting_router = routes("jobs", Permission.JOBS)


class JobQuery(Query):
    state: list[JobState] = Field(default_factory=list)
    owner: list[Text] = Field(default_factory=list, max_length=100)
    preset: list[Text] = Field(default_factory=list, max_length=100)
    project: list[Text] = Field(default_factory=list, max_length=100)
    kind: list[JobKind] = Field(default_factory=list)
    open: bool | None = Field(None, description="true: jobs that have not ended; false: jobs that have.")
    or_disk_kept: bool = Field(
        False, description="True: adds ended jobs whose disk is kept, because it bills, to open=true."
    )
    sort: Literal["newest", "oldest"] = Field("newest", description="The first time of submission.")
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


@acting_router.post(
    "/jobs",
    summary="Launch a job",
    operation_id="launchJob",
    status_code=HTTPStatus.CREATED,
    dependencies=[CHECKED],
    responses={
        200: {"description": "A repeat of an earlier request: the job that it created.", "model": JobResponse},
        409: problem("This key was used with another body before."),
        **WRITTEN,
    },
)
def submit(
    deps: Given, asker: Asker, body: JobBody, response: Response, key: Key = None, client: Client = ""
) -> JobResponse:
    """Accepts the job, or lists everything that is wrong with it. The daemon launches its VM within seconds."""
    owner = owner_of(asker, body)
    made, is_new = available_service(deps.jobs).submit(
        body.submission(owner.address), asker.own(key), via_of(client), owner.authority
    )
    if not is_new:
        response.status_code = HTTPStatus.OK
    response.headers["Location"] = f"/api/v1/jobs/{made.id}"
    return _detail(deps, made.id)


@router.get("/jobs", summary="List jobs", operation_id="listJobs")
def jobs(deps: Given, query: Annotated[JobQuery, Parameter()]) -> JobsResponse:
    """Lists jobs with the state of each, the reason for it, its cost, and the place of its VM."""
    filters = JobFilters(
        state=tuple(query.state),
        owner=tuple(owner.lower() for owner in query.owner),
        preset=tuple(query.preset),
        project=tuple(query.project),
        kind=tuple(query.kind),
        open=query.open,
        or_disk_kept=query.or_disk_kept,
    )
    order = f"jobs {query.sort}"
    after, oldest_first = cursors.decode_place(query.cursor, order), query.sort == "oldest"
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        rows = listing.jobs_page(connection, accrual, filters, after, query.limit + 1, oldest_first=oldest_first)
        kept = kept_disks.in_all(connection, accrual)
    page, more = rows[: query.limit], None
    if len(rows) > query.limit:
        more = cursors.encode_place(order, page[-1].job.created_at, page[-1].job.id)
    return JobsResponse(
        as_of=accrual.now,
        jobs=[JobOut.read(row) for row in page],
        kept_disks=KeptDisksOut.read(kept),
        next_cursor=more,
    )


@router.get("/jobs/{job_id}", summary="Get a job with all its attempts", operation_id="getJob", responses=NOT_FOUND)
def job(deps: Given, job_id: JobId) -> JobResponse:
    """Gets the request, every VM that tried it, its interruptions, and the next step."""
    return _detail(deps, job_id)


@router.get(
    "/jobs/{job_id}/attempts", summary="List the attempts of a job", operation_id="listAttempts", responses=NOT_FOUND
)
def attempts(deps: Given, job_id: JobId) -> AttemptsResponse:
    """Lists the job's attempts, each with its own VM, in order."""
    detail = _detail(deps, job_id)
    return AttemptsResponse(as_of=detail.as_of, job=detail.job.id, attempts=detail.attempts)


@acting_router.post(
    "/jobs/{job_id}/cancel",
    summary="Cancel a job",
    operation_id="cancelJob",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses={
        200: {"description": "It was cancelled before.", "model": JobResponse},
        409: problem("It has already ended, or it saves no checkpoints to wait for."),
        **NOT_FOUND,
        **WRITTEN,
    },
)
def cancel(deps: Given, asker: Asker, job_id: JobId, body: CancelBody, response: Response) -> JobResponse:
    """Stores the request. The daemon notifies the command, and then deletes the VM.

    Where the job saves on its VM's own disk, the VM is stopped instead and its disk kept, which bills, unless
    `delete_disk` confirms that everything saved there may be lost.
    """
    by = acting(asker, body.by, "by")
    service = available_service(deps.jobs)
    if body.after_checkpoint:
        _, is_new = service.cancel_after_checkpoint(job_id, by.address, by.authority)
    else:
        _, is_new = service.cancel(job_id, by.address, body.reason, by.authority, delete_disk=body.delete_disk)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return _detail(deps, job_id)


@acting_router.post(
    "/jobs/{job_id}/drill",
    summary="Drill a preemption of a job",
    operation_id="drillJob",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses={
        409: problem("It saves nowhere, has ended, or is being drilled."),
        **NOT_FOUND,
        **WRITTEN,
    },
)
def drill(deps: Given, asker: Asker, job_id: JobId, body: DrillBody) -> JobResponse:
    """Stores the request. At the next moment at which little is at stake, the command gets the notice of a preemption.

    Its save is timed and judged; then it is started again on the same VM, from its newest complete checkpoint.
    """
    by = acting(asker, body.by, "by")
    available_service(deps.jobs).drill(job_id, by.address, by.authority)
    return _detail(deps, job_id)


@acting_router.post(
    "/jobs/{job_id}/never-mind",
    summary="Silence the hint about a job",
    operation_id="neverMind",
    dependencies=[CHECKED],
    responses={409: problem("It has ended, or is being cancelled."), **NOT_FOUND, **WRITTEN},
)
def never_mind(deps: Given, asker: Asker, job_id: JobId, body: NeverMindBody) -> JobResponse:
    """Silences the hint at its metric's standstill until a new best value, and undoes a cancel after a checkpoint."""
    by = acting(asker, body.by, "by")
    available_service(deps.jobs).never_mind(job_id, by.address, by.authority)
    return _detail(deps, job_id)


@acting_router.post(
    "/jobs/{job_id}/delete-disk",
    summary="Delete a job's kept disk",
    operation_id="deleteDisk",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses={
        200: {"description": "This was requested before.", "model": JobResponse},
        409: problem("It has no kept disk, or it has not ended."),
        **NOT_FOUND,
        **WRITTEN,
    },
)
def delete_disk(deps: Given, asker: Asker, job_id: JobId, body: DeleteDiskBody, response: Response) -> JobResponse:
    """Confirms that everything the job saved on its VM's own disk is lost. The daemon deletes the VM with its disk."""
    by = acting(asker, body.by, "by")
    _, is_new = available_service(deps.jobs).delete_disk(job_id, by.address, by.authority)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return _detail(deps, job_id)


def owner_of(asker: Principal, body: JobBody) -> Actor:
    """The job's owner; none where the master token names none, which is refused together with everything else."""
    if not asker.address and not body.owner.strip():
        return Actor("")
    return acting(asker, body.owner, "owner")


def _detail(deps: Deps, job_id: str) -> JobResponse:
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        detail = listing.job_detail(connection, accrual, job_id)
        goodput = goodput_rows.of_job(connection, accrual, job_id)
        stored_plan = plan_rows.of_jobs(connection, [job_id]).get(job_id)
        bound = diagnosis.bound_now(connection, job_id)
        progress = job_progress(connection, accrual, job_id)
        still = curve_news.hint_of(connection, detail.row.job) if detail is not None else None
        interval = save_interval.advice_of(connection, accrual.now, job_id)
        trackers = tracker_rows.of_job(connection, job_id)
    if detail is None:
        raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all jobs.")
    now, checkpoint, risk = accrual.now, detail.checkpoint, detail.risk
    numbers = {attempt.id: attempt.number for attempt in detail.row.attempts}
    return JobResponse.read(
        detail,
        as_of=now,
        price_note=accrual.price_note,
        attempts=[attempt_out(attempt) for attempt in detail.row.attempts],
        interruptions=[
            InterruptionOut.read(interruption, attempt=numbers[interruption.attempt_id])
            for interruption in detail.interruptions
        ],
        rounds=[RoundOut.read(one) for one in detail.rounds],
        drills=[DrillOut.of(drill) for drill in detail.drills],
        checkpoint=checkpoint and CheckpointOut.read(checkpoint, is_deleted=detail.is_checkpoint_deleted),
        work_at_risk=risk and AtRiskOut.read(risk, since=now - risk.span),
        save_interval=interval and SaveIntervalOut.read(interval),
        bound=bound,
        standstill=still and StandstillOut.read(still),
        progress=ProgressOut.read(progress) if progress is not None and progress.seen is not None else None,
        goodput=goodput and GoodputOut.read(goodput),
        plan=plan_out(stored_plan),
        trackers=[TrackedRunOut.read(run) for run in trackers],
        ssh_command=detail.ssh or None,
        notebook_command=detail.notebook or None,
    )
