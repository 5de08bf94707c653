"""Configuration: the watched projects, and what kinds of problems mean."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Moment, Out, Text, read_from
from costguard.api.route import Route, routes
from costguard.api.vm_parts import UnreadOut, unread_parts
from costguard.ledger import projects as stored_projects
from costguard.model.access import Permission
from costguard.web.permissions import needs
from costguard.web.problems import KINDS, NOT_FOUND, RESPONSES, ProblemError

router = routes("configuration")
problems_router = APIRouter(
    prefix="/problems",
    tags=["configuration"],
    responses={**RESPONSES, **NOT_FOUND},
    dependencies=[needs(Permission.READ)],
    route_class=Route,
)


class ProjectOut(Out):
    project: str
    instances: int = read_from(
        "instance_count", description="The number of instances in the last read that covered every zone."
    )
    first_seen_at: Moment
    last_tried_at: Moment
    last_complete_at: Moment | None = Field(description="The last read that covered every zone; null: there was none.")
    operations_through_at: Moment | None = Field(description="Operations, and who started them, are known up to here.")
    is_stale: bool = Field(description="True: the last complete read is older than it should be, or there is none.")
    unread: list[UnreadOut]


class ProjectsResponse(Out):
    as_of: Moment
    projects: list[ProjectOut]


class ProblemKindOut(Out):
    type: str = Field(examples=["/problems/job-over"])
    meaning: str


@router.get("/projects", summary="List the watched projects", operation_id="listProjects")
def projects(deps: Given) -> ProjectsResponse:
    """Lists the result of the last reads of each project, and the parts that could not be read."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        looks = stored_projects.read_all(connection)
    return ProjectsResponse(
        as_of=now,
        projects=[
            ProjectOut.read(
                look,
                is_stale=look.last_complete_at is None or now - look.last_complete_at > deps.stale_after,
                unread=unread_parts([look]),
            )
            for look in looks
        ],
    )


@problems_router.get("/{kind}", summary="Explain a kind of problem", operation_id="getProblem")
def problem_kind(kind: Annotated[Text, Path(examples=["job-over"])]) -> ProblemKindOut:
    """Explains the `type` of a problem document, where it is not about:blank."""
    if kind not in KINDS:
        raise ProblemError(
            HTTPStatus.NOT_FOUND, f"There is no kind of problem {kind!r}.", f"The kinds are: {', '.join(KINDS)}."
        )
    return ProblemKindOut(type=f"/problems/{kind}", meaning=KINDS[kind])
