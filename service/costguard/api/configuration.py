"""Configuration: the watched projects, and what kinds of problems mean."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import AsOf, Moment, Out, Text, read_from
from costguard.api.route import NOT_FOUND, RESPONSES, Route, routes
from costguard.api.vm_parts import UnreadOut, unread_parts
from costguard.daemon import feed_state
from costguard.errors import KINDS
from costguard.ledger import projects as stored_projects
from costguard.ledger.discovery import rows as discovered
from costguard.ledger.discovery.rules import WatchedProject
from costguard.model.access import Permission
from costguard.web.permissions import needs
from costguard.web.problems import ProblemError

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
    is_listed: bool = Field(description="True: the settings list it. False: it is watched because a search found it.")
    found_at: Moment | None = Field(description="The time of the first search that found it; null: none has.")
    last_found_at: Moment | None = Field(description="The time of the last search that found it.")
    missing_since: Moment | None = Field(
        description="The first complete search since then that did not show it. It stays watched while it may have VMs."
    )
    refused_since: Moment | None = Field(
        description="The time since when it has refused to be read, as `unread` says; null: it answers. A discovered "
        "project that refuses is asked at least every ten minutes."
    )
    unread: list[UnreadOut]


class SearchedPlaceOut(Out):
    """An organisation or folder that is searched for projects every ten minutes."""

    place: str = Field(examples=["organizations/123456789012"])
    tried_at: Moment
    searched_at: Moment | None = Field(description="The time of the last complete search; null: there was none.")
    project_count: int = Field(description="The number of projects with VMs, TPU nodes or reservations in it.")
    failed_since: Moment | None = Field(
        description="The time since when searches have failed; null: the last one was complete."
    )
    failure: str = Field(description="The reason why the last search failed, with what mends it.")


class ProjectsResponse(AsOf):
    projects: list[ProjectOut]
    searches: list[SearchedPlaceOut]


class ProblemKindOut(Out):
    type: str = Field(examples=["/problems/job-over"])
    meaning: str


@router.get("/projects", summary="List the watched projects", operation_id="listProjects")
def projects(deps: Given) -> ProjectsResponse:
    """Lists the result of the last reads of each project, why it is watched, and the parts that could not be read."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        looks = stored_projects.read_all(connection)
        rows = {row.project: row for row in discovered.read_all(connection)}
        places = discovered.places(connection)
        streams = feed_state.streams(connection, deps.rhythm)
    return ProjectsResponse(
        as_of=now,
        projects=[
            ProjectOut.read(
                look,
                **_origin(rows.get(look.project) or WatchedProject(look.project), deps.listed),
                is_stale=look.last_complete_at is None
                or now - look.last_complete_at > streams.longest_age(look.project, now, deps.stale_after),
                unread=unread_parts([look]),
            )
            for look in looks
        ],
        searches=[SearchedPlaceOut.read(place) for place in places],
    )


def _origin(row: WatchedProject, listed: frozenset[str]) -> dict[str, Any]:
    """The fields that say why a project is watched, and whether it answers."""
    return {
        "is_listed": row.project in listed or row.found_at is None,
        "found_at": row.found_at,
        "last_found_at": row.last_found_at,
        "missing_since": row.missing_since,
        "refused_since": row.refused_since,
    }


@problems_router.get("/{kind}", summary="Explain a kind of problem", operation_id="getProblem")
def problem_kind(kind: Annotated[Text, Path(examples=["job-over"])]) -> ProblemKindOut:
    """Explains the `type` of a problem document, where it is not about:blank."""
    if kind not in KINDS:
        raise ProblemError(
            HTTPStatus.NOT_FOUND, f"There is no kind of problem {kind!r}.", f"The kinds are: {', '.join(KINDS)}."
        )
    return ProblemKindOut(type=f"/problems/{kind}", meaning=KINDS[kind])
