"""What people ask of VMs over REST: stored at once, carried out by the next pass, and followed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Path, Response
from fastapi import Query as Parameter
from pydantic import Field, StrictInt
from sqlalchemy import Connection

from costguard.access import requests
from costguard.access.requests import StoredRequest
from costguard.api import cursors
from costguard.api.deps import Deps, Given
from costguard.api.fields import Address, Body, Moment, Out, Query, Text, Told, one_of
from costguard.api.route import routes
from costguard.api.writing import CHECKED, WRITTEN, Client, Key, acting, via_of
from costguard.ledger import fleet_rows
from costguard.model.access import Permission, Principal
from costguard.model.instance import InstanceKey
from costguard.model.reminder import RequestKind
from costguard.reminders.requests import RequestReceipt, ask
from costguard.web.problems import NOT_FOUND, ProblemError, problem
from costguard.web.who import Asker

router = routes("instances")
acting_router = routes("instances", Permission.INSTANCES)

_MOST_HOURS = 24 * 365
Project = Annotated[Text, Path()]
GceId = Annotated[Text, Path(description="Google's numeric id.")]


class Links(Out):
    self: str = Field(description="Where to follow it.", examples=["/api/v1/requests/7"])
    instance: str = Field(description="The VM.", examples=["/api/v1/instances/lab/4711"])


class Request(Out):
    id: int
    asked: Annotated[str, one_of(RequestKind)]
    project: str
    gce_id: str
    name: str
    by: str = Field(description="The address of who asked.")
    via: Annotated[str, one_of(("slack", "page", "api", "cli"))]
    at: Moment
    hours: int | None = Field(description="Of a keep; null there: until tomorrow morning where they are.")
    reason: str
    due_at: Moment | None = Field(description="The due moment that they saw; null: none.")
    status: Literal["open", "done", "refused"] = Field(description="open: the next pass looks at it.")
    outcome: str = Field(description="What came of it, in a sentence; empty while it is open.")
    settled_at: Moment | None
    links: Links


class RequestAnswer(Out):
    as_of: Moment
    request: Request


class Requests(Out):
    as_of: Moment
    requests: list[Request]
    next_cursor: str | None


class RequestQuery(Query):
    status: Literal["open", "done", "refused"] | None = None
    project: Text | None = Field(None, description="With gce_id: of this VM alone.")
    gce_id: Text | None = None
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class ActBody(Body):
    reason: Text = Field("", description="For the facts, and for those who are told.", examples=["done for today"])
    by: Address | None = Field(
        None, description="Who asks; default: whom the token or the session speaks for. Only admins name another."
    )
    started_at: Told | None = Field(None, description="Only if the run that began then still goes on.")
    due_at: Told | None = Field(None, description="Only if it is still due then.")


class KeepBody(ActBody):
    hours: Annotated[StrictInt, Field(ge=1, le=_MOST_HOURS)] | None = Field(
        None, description="Beyond when it is due; null: until tomorrow morning.", examples=[4]
    )


def _offer(asked: RequestKind, summary: str, told: str) -> None:
    def act(
        deps: Given,
        asker: Asker,
        project: Project,
        gce_id: GceId,
        body: ActBody,
        response: Response,
        key: Key = None,
        client: Client = "",
    ) -> RequestAnswer:
        return _ask(deps, asker, asked, InstanceKey(project, gce_id), body, None, key, client, response)

    def keep(
        deps: Given,
        asker: Asker,
        project: Project,
        gce_id: GceId,
        body: KeepBody,
        response: Response,
        key: Key = None,
        client: Client = "",
    ) -> RequestAnswer:
        return _ask(deps, asker, asked, InstanceKey(project, gce_id), body, body.hours, key, client, response)

    acting_router.add_api_route(
        f"/instances/{{project}}/{{gce_id}}/{asked.value}",
        keep if asked is RequestKind.KEEP else act,
        methods=["POST"],
        summary=summary,
        description=told,
        operation_id=f"{asked.value}Instance",
        status_code=HTTPStatus.ACCEPTED,
        dependencies=[CHECKED],
        responses={
            200: {"description": "This key asked for it before.", "model": RequestAnswer},
            409: problem("The VM is not as who asked saw it, or the key came with something else before."),
            **NOT_FOUND,
            **WRITTEN,
        },
    )


_AFTER = "Stored at once, and carried out by the next pass, within seconds: follow the request that is answered."
_offer(RequestKind.STOP, "Stop a VM", f"A VM that works on a job has the job cancelled. Disks stay, and bill. {_AFTER}")
_offer(RequestKind.KEEP, "Keep a VM", f"Nobody is asked about it for so long, and no rule stops it. {_AFTER}")
_offer(
    RequestKind.CLAIM,
    "Say that a VM is yours",
    (
        "What it costs from now on counts for you. An unowned VM is for operators of its team. The team's channel is "
        f"notified, and until then, or for an hour, a claim gives no right to stop. {_AFTER}"
    ),
)
_offer(RequestKind.DISOWN, "Say that a VM is not its owner's", f"Its team is asked about it from now on. {_AFTER}")


@router.get("/requests", summary="What people asked of VMs, the latest first", operation_id="listRequests")
def listed(deps: Given, query: Annotated[RequestQuery, Parameter()]) -> Requests:
    """By Slack, pages, REST or the command line; also those that were refused by a pass."""
    before = None if query.cursor is None else int(cursors.decode(query.cursor, "requests", (int,))[0])
    with deps.database.read() as connection:
        instance_id = None
        if query.project is not None or query.gce_id is not None:
            key = InstanceKey(query.project or "", query.gce_id or "")
            instance_id = fleet_rows.instance_id(connection, key) or 0
        found = requests.page(connection, query.status, instance_id, before, query.limit + 1)
        page = found[: query.limit]
        told = _told(connection, page)
    more = cursors.encode("requests", page[-1].request.id or 0) if len(found) > query.limit else None
    return Requests(as_of=deps.clock.now(), requests=told, next_cursor=more)


@router.get(
    "/requests/{request_id}", summary="What became of a request", operation_id="getRequest", responses=NOT_FOUND
)
def read(deps: Given, request_id: Annotated[int, Path(ge=1, le=2**63 - 1)]) -> RequestAnswer:
    """open until a pass has looked at it; then done or refused, with why."""
    with deps.database.read() as connection:
        found = requests.read(connection, request_id)
        if found is None:
            what_next = "GET /api/v1/requests lists all of them."
            raise ProblemError(HTTPStatus.NOT_FOUND, f"There is no request {request_id}.", what_next)
        (told,) = _told(connection, [found])
    return RequestAnswer(as_of=deps.clock.now(), request=told)


def _ask(
    deps: Deps,
    asker: Principal,
    asked: RequestKind,
    vm: InstanceKey,
    body: ActBody,
    hours: int | None,
    key: str | None,
    client: str,
    response: Response,
) -> RequestAnswer:
    acting(asker, body.by, "by")
    outcome = ask(
        deps.database,
        deps.clock,
        deps.rules,
        asker,
        vm,
        asked,
        hours=hours,
        reason=body.reason,
        idempotency_key=key,
        via=via_of(client),
        wake=deps.wake,
        by=body.by or "",
        started_at=body.started_at,
        due_at=body.due_at,
    )
    if not outcome.is_new:
        response.status_code = HTTPStatus.OK
    return _answer(deps, outcome, response)


def _answer(deps: Deps, outcome: RequestReceipt, response: Response) -> RequestAnswer:
    with deps.database.read() as connection:
        (told,) = _told(connection, [outcome.stored])
    response.headers["Location"] = told.links.self
    return RequestAnswer(as_of=deps.clock.now(), request=told)


def _told(connection: Connection, found: Sequence[StoredRequest]) -> list[Request]:
    vms = {vm.id: vm for vm in fleet_rows.known(connection, list({each.request.subject.instance_id for each in found}))}
    return [_request(each, vms[each.request.subject.instance_id]) for each in found]


def _request(of: StoredRequest, vm: fleet_rows.FleetInstance) -> Request:
    asked, project, gce_id = of.request, vm.key.project, vm.key.gce_id
    return Request(
        id=asked.id or 0,
        asked=asked.kind.value,
        project=project,
        gce_id=gce_id,
        name=vm.name,
        by=asked.by,
        via=asked.via,
        at=asked.at,
        hours=asked.hours,
        reason=asked.reason,
        due_at=asked.due_at,
        status=_STATUS[of.status],
        outcome=of.outcome,
        settled_at=of.settled_at,
        links=Links(self=f"/api/v1/requests/{asked.id}", instance=f"/api/v1/instances/{project}/{gce_id}"),
    )


_STATUS: Mapping[str, Literal["open", "done", "refused"]] = {"open": "open", "done": "done", "refused": "refused"}
