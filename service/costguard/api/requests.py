"""Requests: what people ask for VMs. Each is stored at once, carried out by the next pass, and followed here."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Path, Response
from fastapi import Query as Parameter
from pydantic import Field, StrictInt
from sqlalchemy import Connection

from costguard.api import cursors
from costguard.api.deps import Deps, Given
from costguard.api.fields import Address, AsOf, Body, BodyMoment, Moment, Out, Query, Text, one_of, read_from
from costguard.api.route import NOT_FOUND, Client, Key, acting, routes, takes_body, via_of
from costguard.api.vm_parts import GceId, Project
from costguard.ledger import fleet_rows
from costguard.model.access import Permission, Principal
from costguard.model.instance import InstanceKey
from costguard.model.reminder import RequestKind
from costguard.reminders import request_rows
from costguard.reminders.request_rows import StoredRequest
from costguard.reminders.requests import RequestWish, ask
from costguard.web.permissions import Asker
from costguard.web.problems import ProblemError

router = routes("instances")
acting_router = routes("instances", Permission.INSTANCES)

_MOST_HOURS = 24 * 365


class LinksOut(Out):
    self: str = Field(description="The address of this request.", examples=["/api/v1/requests/7"])
    instance: str = Field(
        description="The address of the VM or other resource.", examples=["/api/v1/instances/lab/4711"]
    )


class RequestOut(Out):
    id: int = read_from("request.id")
    kind: Annotated[str, one_of(RequestKind)] = read_from("request.kind")
    project: str
    gce_id: str
    name: str
    by: str = read_from("request.by", description="The requester's address.")
    via: Annotated[str, one_of(("slack", "page", "api", "cli"))] = read_from("request.via")
    at: Moment = read_from("request.at")
    hours: int | None = read_from(
        "request.hours", description="The hours of a keep; null: until tomorrow morning in the requester's time zone."
    )
    reason: str = read_from("request.reason")
    due_at: Moment | None = read_from("request.due_at", description="The due time that the requester saw; null: none.")
    status: Annotated[str, one_of(("open", "done", "refused"))] = Field(
        description="`open`: the next pass carries it out."
    )
    outcome: str = Field(description="The result, in a sentence; empty while it is open.")
    settled_at: Moment | None
    links: LinksOut


class RequestResponse(AsOf):
    request: RequestOut


class RequestsResponse(AsOf):
    requests: list[RequestOut]
    next_cursor: str | None


class RequestQuery(Query):
    status: Literal["open", "done", "refused"] | None = None
    project: Text | None = Field(None, description="Together with gce_id: requests for this VM or resource alone.")
    gce_id: Text | None = None
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class RequestBody(Body):
    reason: Text = Field(
        "", description="The reason, shown in the audit log and in notifications.", examples=["done for today"]
    )
    by: Address | None = Field(None, description="The requester; default: the caller. Only admins name another.")
    started_at: BodyMoment | None = Field(
        None, description="The start of the run that the requester saw: the request is refused if that run has ended."
    )
    due_at: BodyMoment | None = Field(
        None, description="The due time that the requester saw: the request is refused if it has changed."
    )


class KeepBody(RequestBody):
    hours: Annotated[StrictInt, Field(ge=1, le=_MOST_HOURS)] | None = Field(
        None,
        description="The length of the keep in hours from when it is due; null: until tomorrow morning.",
        examples=[4],
    )


def _offer(kind: RequestKind, summary: str, description: str) -> None:
    def act(
        deps: Given,
        asker: Asker,
        project: Project,
        gce_id: GceId,
        body: RequestBody,
        response: Response,
        key: Key = None,
        client: Client = "",
    ) -> RequestResponse:
        return _ask(deps, asker, kind, InstanceKey(project, gce_id), body, key, client, response)

    def keep(
        deps: Given,
        asker: Asker,
        project: Project,
        gce_id: GceId,
        body: KeepBody,
        response: Response,
        key: Key = None,
        client: Client = "",
    ) -> RequestResponse:
        return _ask(deps, asker, kind, InstanceKey(project, gce_id), body, key, client, response)

    acting_router.add_api_route(
        f"/instances/{{project}}/{{gce_id}}/{kind.value}",
        keep if kind is RequestKind.KEEP else act,
        methods=["POST"],
        summary=summary,
        description=description,
        operation_id=f"{kind.value}Instance",
        status_code=HTTPStatus.ACCEPTED,
        **takes_body(
            "The VM or resource has changed since the caller saw it, or the key was used with another body before.",
            ("A repeat of an earlier request.", RequestResponse),
        ),
    )


_AFTER = "The request is stored and carried out by the next pass, within seconds: follow the request in the response."
_offer(
    RequestKind.STOP,
    "Stop a VM or other resource",
    "Stops the VM, or cancels the job that it runs; disks are kept, and bill. Of what Vertex AI runs, cancels a custom "
    f"job, stops a Colab runtime or undeploys a model. {_AFTER}",
)
_offer(
    RequestKind.KEEP,
    "Keep a VM or other resource",
    f"Holds back reminders about it, and stops by rules, during that time. {_AFTER}",
)
_offer(
    RequestKind.CLAIM,
    "Claim a VM or other resource",
    (
        "Makes the requester the owner: its cost counts as theirs from now on. Only operators of its team can "
        "claim what is unowned. The team's channel is notified; until then, or for an hour, a claim does not allow "
        f"stopping it. {_AFTER}"
    ),
)
_offer(
    RequestKind.DISOWN,
    "Disown a VM or other resource",
    f"Makes it unowned; its team gets the reminders. {_AFTER}",
)


@router.get(
    "/requests", summary="List requests for VMs and other resources, the latest first", operation_id="listRequests"
)
def listed(deps: Given, query: Annotated[RequestQuery, Parameter()]) -> RequestsResponse:
    """Lists requests from Slack, pages, REST and the command line, including requests that a pass refused."""
    before = cursors.decode_id(query.cursor, "requests")
    with deps.database.read() as connection:
        instance_id = None
        if query.project is not None or query.gce_id is not None:
            key = InstanceKey(query.project or "", query.gce_id or "")
            instance_id = fleet_rows.instance_id(connection, key) or 0
        rows = request_rows.page(connection, query.status, instance_id, before, query.limit + 1)
        page = rows[: query.limit]
        shown = _requests(connection, page)
    more = cursors.encode("requests", page[-1].request.id or 0) if len(rows) > query.limit else None
    return RequestsResponse(as_of=deps.clock.now(), requests=shown, next_cursor=more)


@router.get("/requests/{request_id}", summary="Get a request", operation_id="getRequest", responses=NOT_FOUND)
def request(deps: Given, request_id: Annotated[int, Path(ge=1, le=2**63 - 1)]) -> RequestResponse:
    """Gets a request. It is open until a pass has looked at it; then done or refused, with the reason."""
    with deps.database.read() as connection:
        stored = request_rows.read(connection, request_id)
        if stored is None:
            what_next = "GET /api/v1/requests lists all requests."
            raise ProblemError(HTTPStatus.NOT_FOUND, f"There is no request {request_id}.", what_next)
        (shown,) = _requests(connection, [stored])
    return RequestResponse(as_of=deps.clock.now(), request=shown)


def _ask(
    deps: Deps,
    asker: Principal,
    kind: RequestKind,
    vm: InstanceKey,
    body: RequestBody,
    key: str | None,
    client: str,
    response: Response,
) -> RequestResponse:
    acting(asker, body.by, "by")
    receipt = ask(
        deps.database,
        deps.clock,
        deps.rules,
        asker,
        vm,
        RequestWish(
            kind,
            hours=body.hours if isinstance(body, KeepBody) else None,
            reason=body.reason,
            idempotency_key=key,
            by=body.by or "",
            started_at=body.started_at,
            due_at=body.due_at,
        ),
        via=via_of(client),
        wake=deps.wake,
    )
    if not receipt.is_new:
        response.status_code = HTTPStatus.OK
    with deps.database.read() as connection:
        (shown,) = _requests(connection, [receipt.stored])
    response.headers["Location"] = shown.links.self
    return RequestResponse(as_of=deps.clock.now(), request=shown)


def _requests(connection: Connection, stored: Sequence[StoredRequest]) -> list[RequestOut]:
    ids = list({request.request.subject.instance_id for request in stored})
    vms = {vm.id: vm for vm in fleet_rows.known(connection, ids)}
    return [_request(request, vms[request.request.subject.instance_id]) for request in stored]


def _request(stored: StoredRequest, vm: fleet_rows.FleetInstance) -> RequestOut:
    project, gce_id = vm.key.project, vm.key.gce_id
    links = LinksOut(self=f"/api/v1/requests/{stored.request.id}", instance=f"/api/v1/instances/{project}/{gce_id}")
    return RequestOut.read(stored, project=project, gce_id=gce_id, name=vm.name, links=links)
