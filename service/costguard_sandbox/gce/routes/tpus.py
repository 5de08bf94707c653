"""projects.locations.nodes.*, queuedResources.* and operations.list of the Cloud TPU API, v2."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.routes.call import ApiCall, Handler, compute, refusal
from costguard_sandbox.gce.tpus import QueuedResource, TpuNode

_MOST = 1000  # of a page


def routes(cloud: Cloud) -> list[Route]:
    """`-` as the location lists those of all zones, of operations none."""
    places = "/projects/{project}/locations/{location}"
    nodes, queued = f"{places}/nodes", f"{places}/queuedResources"
    return [
        _tpu(nodes, _nodes, cloud),
        _tpu(nodes, _create, cloud, "POST"),
        _tpu(f"{nodes}/{{name}}:stop", _asking("stop"), cloud, "POST"),
        _tpu(f"{nodes}/{{name}}:start", _asking("start"), cloud, "POST"),
        _tpu(f"{nodes}/{{name}}", lambda call: _node(call).resource(), cloud),
        _tpu(f"{nodes}/{{name}}", _asking("delete"), cloud, "DELETE"),
        _tpu(queued, _queued, cloud),
        _tpu(f"{queued}/{{name}}", lambda call: _queued_resource(call).resource(), cloud),
        _tpu(f"{queued}/{{name}}", _drop, cloud, "DELETE"),
        _tpu(f"{places}/operations", _operations, cloud),
    ]


def _tpu(path: str, handler: Handler, cloud: Cloud, method: str = "GET") -> Route:
    """Refuses a project that has not enabled the API before anything else, faults included."""
    route = compute(path, handler, cloud, method, takes_body=method == "POST", root="/v2")
    inner = route.endpoint

    async def endpoint(request: Request) -> Response:
        project = request.path_params["project"]
        try:
            if project in cloud.projects:
                cloud.tpus.check(project)
        except Refused as refused:
            return refusal(refused)
        answer: Response = await inner(request)
        return answer

    return Route(route.path, endpoint, methods=[method])


def _node(call: ApiCall) -> TpuNode:
    return call.cloud.tpus.node(call.project, call.params["location"], call.params["name"])


def _queued_resource(call: ApiCall) -> QueuedResource:
    return call.cloud.tpus.queued_resource(call.project, call.params["location"], call.params["name"])


def _nodes(call: ApiCall) -> Any:
    return _page(
        call, "nodes", [one.resource() for one in call.cloud.tpus.nodes(call.project, call.params["location"])]
    )


def _queued(call: ApiCall) -> Any:
    listed = call.cloud.tpus.queued(call.project, call.params["location"])
    return _page(call, "queuedResources", [one.resource() for one in listed])


def _operations(call: ApiCall) -> Any:
    return _page(call, "operations", call.cloud.tpus.operations(call.project, call.params["location"]))


def _page(call: ApiCall, collection: str, rows: list[dict[str, Any]]) -> Any:
    """A page; those of zones that are unreachable are left out, and named."""
    lost = call.cloud.faults.unreachable_zones(call.project)
    rows = [row for row in rows if row["name"].split("/")[3] not in lost]
    size = min(int(call.query.get("pageSize") or _MOST), _MOST)
    begin = int(call.query.get("pageToken") or 0)
    answer: dict[str, Any] = {collection: rows[begin : begin + size]} if rows else {}
    if begin + size < len(rows):
        answer["nextPageToken"] = str(begin + size)
    if lost:
        answer["unreachable"] = [f"projects/{call.project}/locations/{zone}" for zone in sorted(lost)]
    return answer


def _create(call: ApiCall) -> Any:
    return call.cloud.tpus.create(call.project, call.params["location"], call.required("nodeId"), dict(call.body))


def _asking(verb: str) -> Handler:
    return lambda call: call.cloud.tpus.ask(verb, _node(call))


def _drop(call: ApiCall) -> Any:
    call.cloud.tpus.drop(_queued_resource(call), force=call.flag("force", "false"))
    return {"done": True, "response": {}}
