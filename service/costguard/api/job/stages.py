"""Data stages: agents' reports on staged inputs, and the list of what is stored near the VMs."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import BaseModel, Field

from costguard.api.deps import Deps, Given
from costguard.api.fields import Address, AmountsAsOf, Body, Moment, Out, Text, Usd, one_of, read_from
from costguard.api.job.attempts import Name, allowed_agent
from costguard.api.route import acting, routes, takes_body
from costguard.errors import Missing
from costguard.model.access import Permission
from costguard.stages import listing
from costguard.stages.expiry import StageService
from costguard.stages.listing import StageView
from costguard.stages.reports import StageReports
from costguard.stages.stage import StageReport, StageState
from costguard.web.permissions import Asker

agent_router = APIRouter(prefix="/api/v1")
router = routes("stages")
acting_router = routes("stages", Permission.JOBS)

_MOST = 2**63 - 1
_DIGEST = r"^[0-9a-f]{64}$"
Size = Annotated[int, Field(strict=True, ge=0, le=_MOST)]
Digest = Annotated[Text, Path(max_length=64, description="The stage's digest.")]


class StageReportBody(BaseModel):
    """The report of an agent; see agent/PROTOCOL.md."""

    digest: str = Field(pattern=_DIGEST)
    address: str = Field(max_length=1000)
    source: str = Field(max_length=1000)
    bytes: Size
    files: Size
    from_source: Size
    staged: Size
    note: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    wants: bool = False
    is_whole: bool = False
    error: str = Field("", max_length=2000)

    def report(self) -> StageReport:
        given = self.model_dump()
        return StageReport(size=given.pop("bytes"), **given)


class StageReportResponse(Out):
    use: bool
    fetch: bool
    note: str


def _own_token(attempt: Name, request: Request, deps: Given) -> None:
    """Accepts the attempt's own token alone, before its body is read. Raises ProblemError."""
    allowed_agent(deps.agent_events, attempt, request)


@agent_router.post(  # for the agent alone: see agent/PROTOCOL.md
    "/attempts/{attempt}/stage", include_in_schema=False, dependencies=[Depends(_own_token)]
)
def report(attempt: Name, body: StageReportBody, deps: Given) -> StageReportResponse:
    """Records what a VM takes from a staged input's source. Only the attempt's own token is accepted."""
    answer = StageReports(deps.database, deps.clock, deps.rules.jobs.stage).answer(attempt, body.report())
    return StageReportResponse.read(answer)


class StageUseOut(Out):
    job: str = read_from("job_id")
    owner: str
    project: str
    is_open: bool
    from_source: int = Field(description="The bytes that this job's VMs fetched from the source.")
    used_at: Moment


class StageShareOut(Out):
    owner: str
    project: str
    cost: Usd


class StageOut(Out):
    digest: str = read_from("stage.digest")
    source: str = read_from("stage.source", examples=["s3://acme-data/v7"])
    place: str = read_from("stage.place", description="The folder of its objects.")
    location: str = Field(description="The location of its bucket; empty: the settings do not name it.")
    state: Annotated[str, one_of(StageState)] = read_from("stage.state")
    bytes: int = read_from("stage.size", description="The bytes of the source.")
    files: int = read_from("stage.files")
    staged: int = read_from("stage.staged", description="The bytes that were seen in the stage.")
    from_source: int = Field(description="The bytes that all VMs together fetched from the source.")
    made_at: Moment = read_from("stage.made_at")
    used_at: Moment = read_from("stage.used_at")
    whole_at: Moment | None = read_from("stage.whole_at")
    in_use: bool = Field(description="True: an open job names its source, so that it is not deleted.")
    a_month: Usd | None = Field(description="The price of a month of its storage; null: not known.")
    stored_cost: Usd | None = Field(
        description="The cost of storing its bytes since it was made, at most; null: not known."
    )
    shares: Sequence[StageShareOut] = Field(
        description="The stored cost by owner and project, in equal parts for each job that used it."
    )
    delete_asked_by: str = read_from(
        "stage.delete_asked_by", description="The person who asked for its deletion; empty: nobody."
    )
    error: str = read_from("stage.error", description="The error of the last write or deletion; empty: none.")
    uses: Sequence[StageUseOut]


class StagesResponse(AmountsAsOf):
    is_set: bool = Field(description="True: the settings name a bucket for stages.")
    stages: Sequence[StageOut]


class StageResponse(AmountsAsOf):
    stage: StageOut


class DeleteStageBody(Body):
    by: Address | None = Field(
        None, description="The requester's address; default: the caller. Only admins name another."
    )


@router.get("/stages", summary="List data stages", operation_id="listStages")
def stages(deps: Given) -> StagesResponse:
    """Lists the data that is kept near the VMs, the stage used last first, with what its storage costs."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        views = listing.views(connection, deps.rules.jobs.stage, now)
    return StagesResponse(
        as_of=now, is_set=deps.rules.jobs.stage.is_set, stages=[StageOut.read(view) for view in views]
    )


@acting_router.post(
    "/stages/{digest}/delete",
    summary="Delete a data stage",
    operation_id="deleteStage",
    status_code=HTTPStatus.ACCEPTED,
    **takes_body("Open jobs use it.", ("It was asked for before.", StageResponse)),
)
def delete(deps: Given, asker: Asker, digest: Digest, body: DeleteStageBody, response: Response) -> StageResponse:
    """Deletes a stage's objects within minutes. The next job that names its source fetches that again."""
    by = acting(asker, body.by, "by").address
    _, is_new = StageService(deps.database, deps.clock).delete(digest, by)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return StageResponse(as_of=deps.clock.now(), stage=StageOut.read(_view(deps, digest)))


def _view(deps: Deps, digest: str) -> StageView:
    with deps.database.read() as connection:
        views = listing.views(connection, deps.rules.jobs.stage, deps.clock.now())
    for view in views:
        if view.stage.digest == digest:
            return view
    raise Missing(f"There is no stage {digest[:12]}.", "GET /api/v1/stages lists all stages.")
