"""Which projects are watched, and how well."""

from __future__ import annotations

from pydantic import Field

from costguard.api import mapping, schemas
from costguard.api.deps import Given
from costguard.api.fields import Moment, Out
from costguard.api.route import routes
from costguard.ledger import projects as stored_projects

router = routes("configuration")


class Project(Out):
    project: str
    instances: int = Field(description="In the last look that read every zone.")
    first_seen_at: Moment
    last_tried_at: Moment
    last_complete_at: Moment | None = Field(description="The last look that read every zone; null: none did.")
    operations_through_at: Moment | None = Field(description="Up to here it is known who did what.")
    is_stale: bool = Field(description="The last complete look is older than it should be, or there is none.")
    unread: list[schemas.Unread]


class Projects(Out):
    as_of: Moment
    projects: list[Project]


@router.get("/projects", summary="The projects that are watched", operation_id="listProjects")
def projects(deps: Given) -> Projects:
    """What the last looks at each project gave, and what they could not read."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        looks = stored_projects.read_all(connection)
    return Projects(
        as_of=now,
        projects=[
            Project(
                project=look.project,
                instances=look.instance_count,
                first_seen_at=look.first_seen_at,
                last_tried_at=look.last_tried_at,
                last_complete_at=look.last_complete_at,
                operations_through_at=look.operations_through_at,
                is_stale=look.last_complete_at is None or now - look.last_complete_at > deps.stale_after,
                unread=mapping.unread([look]),
            )
            for look in looks
        ],
    )
