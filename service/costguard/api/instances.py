"""The fleet, one VM, and the lifetimes of all."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Path
from fastapi import Query as Parameter
from pydantic import Field

from costguard.api import cursors, mapping, schemas
from costguard.api.deps import Given
from costguard.api.fields import Query, Text, Texts, When
from costguard.api.route import routes
from costguard.ledger import fleet_rows as stored_fleet
from costguard.ledger import history, prices, projects
from costguard.ledger.accrual import accrual_at
from costguard.ledger.spans import LifetimeFilters
from costguard.model.instance import InstanceKey, Status
from costguard.model.lifetime import EndReason
from costguard.reminders import gather
from costguard.spend import fleet
from costguard.web.problems import NOT_FOUND, ProblemError

router = routes("instances")

_CURSOR = (int, int, str, int)
_LATEST = 2**53  # microseconds since 1970: the year 2255


class InstanceQuery(Query):
    project: Texts = Field(default_factory=list)
    preset: Texts = Field(default_factory=list)
    owner: Texts = Field(default_factory=list, description="An empty value finds the unclaimed.")
    status: list[Status] = Field(default_factory=list)
    name: Text | None = None
    gce_id: Text | None = None
    gpu: Text | None = Field(None, description="An accelerator type, any, or none.", examples=["nvidia-tesla-t4"])
    spot: bool | None = None
    gone: bool = Field(False, description="Also instances that are gone; they come last, the latest first.")
    sort: fleet.Sort = Field(fleet.Sort.RATE, description="rate: the most expensive per hour first.")
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class LifetimeQuery(Query):
    project: Texts = Field(default_factory=list)
    gce_id: Text | None = None
    preset: Texts = Field(default_factory=list)
    owner: Texts = Field(default_factory=list)
    end_reason: list[EndReason] = Field(default_factory=list)
    state: Literal["open", "ended"] | None = None
    started_from: When | None = None
    started_before: When | None = None
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


@router.get("/instances", summary="The fleet with its money", operation_id="listInstances")
def instances(deps: Given, query: Annotated[InstanceQuery, Parameter()]) -> schemas.Fleet:
    """Every VM that is there, with what it costs an hour and has cost so far, and what could not be read."""
    filters = stored_fleet.Filters(
        projects=tuple(query.project),
        presets=tuple(query.preset),
        owners=tuple(query.owner),
        statuses=tuple(query.status),
        name=query.name,
        gce_id=query.gce_id,
        gpu=query.gpu,
        spot=query.spot,
    )
    after = None if query.cursor is None else _cursor(query.cursor, query.sort)
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        page = fleet.fleet_page(
            connection,
            accrual,
            deps.rules.limits,
            filters,
            sort=query.sort,
            with_gone=query.gone,
            after=after,
            size=query.limit,
        )
        looks = projects.read_all(connection)
    end = page.next
    return schemas.Fleet(
        as_of=accrual.now,
        totals=mapping.totals(page.totals),
        unread=mapping.unread(looks),
        instances=[mapping.instance(row) for row in page.rows],
        next_cursor=None if end is None else cursors.encode(query.sort, int(end.gone), end.rank, end.name, end.id),
    )


@router.get(
    "/instances/{project}/{gce_id}",
    summary="One VM with its whole history",
    operation_id="getInstance",
    responses=NOT_FOUND,
)
def instance(
    deps: Given, project: Annotated[Text, Path()], gce_id: Annotated[Text, Path(description="Google's numeric id.")]
) -> schemas.InstanceDetail:
    """One VM, why it was not stopped, its lifetimes and storage, and each charge with the price it was billed at."""
    with deps.database.read() as connection:
        found = stored_fleet.instance_id(connection, InstanceKey(project, gce_id))
        if found is None:
            raise ProblemError(
                HTTPStatus.NOT_FOUND,
                f"No instance {gce_id} was ever seen in project {project}.",
                "GET /api/v1/instances?gone=true lists those that were; ids are Google's numbers, not names.",
            )
        accrual, known = accrual_at(connection, deps.clock.now()), prices.by_id(connection)
        (view,) = fleet.views(connection, accrual, deps.rules.limits, [found])
        runs = history.lifetimes_of(connection, accrual, found)
        stores = history.storage_of(connection, accrual, found)
        why_not = gather.why_not_stopped(connection, deps.rules, found, view.idle, accrual.now)
    return schemas.InstanceDetail(
        as_of=accrual.now,
        instance=mapping.instance(view),
        not_stopped=mapping.not_stopped(why_not, accrual.now),
        lifetimes=[mapping.lifetime_detail(run, accrual.now, known) for run in runs],
        storage=[mapping.storage(store, known) for store in stores],
    )


@router.get("/lifetimes", summary="Lifetimes, those recorded last first", operation_id="listLifetimes")
def lifetimes(deps: Given, query: Annotated[LifetimeQuery, Parameter()]) -> schemas.Lifetimes:
    """Continuous billed runs of instances, each with why and by whom it ended."""
    filters = LifetimeFilters(
        projects=query.project,
        gce_id=query.gce_id,
        presets=query.preset,
        owners=query.owner,
        end_reasons=query.end_reason,
        is_open=None if query.state is None else query.state == "open",
        started_from=query.started_from,
        started_before=query.started_before,
    )
    before = None if query.cursor is None else cursors.decode(query.cursor, "lifetimes", (int,))[0]
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        found = history.lifetimes(connection, accrual, filters, None if before is None else int(before), query.limit)
    page = found[: query.limit]
    return schemas.Lifetimes(
        as_of=accrual.now,
        lifetimes=[mapping.lifetime(view, accrual.now) for view in page],
        next_cursor=cursors.encode("lifetimes", page[-1].stored.id) if len(found) > query.limit else None,
    )


def _cursor(text: str, sort: fleet.Sort) -> fleet.Cursor:
    gone, rank, name, instance_id = cursors.decode(text, sort, _CURSOR)
    if gone == 1 and not 0 <= int(rank) <= _LATEST:
        raise cursors.bad()
    return fleet.Cursor(gone == 1, int(rank), str(name), int(instance_id))
