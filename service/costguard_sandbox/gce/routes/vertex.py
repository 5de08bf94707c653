"""projects.locations.* of Vertex AI (aiplatform.v1): lists of what bills by the hour, and the requests that end it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.routes.call import ApiCall, Handler, compute, refusal
from costguard_sandbox.gce.vertex.filters import matching

_MOST = 100  # of a page
_LISTS = (
    "customJobs",
    "hyperparameterTuningJobs",
    "persistentResources",
    "notebookRuntimes",
    "endpoints",
    "deploymentResourcePools",
)
_VERBS = {
    "customJobs": ("cancel",),
    "hyperparameterTuningJobs": ("cancel",),
    "notebookRuntimes": ("stop",),
    "endpoints": ("undeployModel",),
}


def routes(cloud: Cloud) -> list[Route]:
    """Every region is under one address here; Google has one for each."""
    places = "/projects/{project}/locations/{location}"
    # By their numbers: Cloud Workstations has operations at such addresses, too, with names.
    made = [_vertex(f"{places}/operations/{{name:int}}", _operation, cloud)]
    for collection in _LISTS:
        path = f"{places}/{collection}"
        made.append(_vertex(path, _listing(collection), cloud))
        made += [
            _vertex(f"{path}/{{name}}:{verb}", _asking(collection, verb), cloud, "POST")
            for verb in _VERBS.get(collection, ())
        ]
        made.append(_vertex(f"{path}/{{name}}", _reading(collection), cloud))
        made.append(_vertex(f"{path}/{{name}}", _asking(collection, "delete"), cloud, "DELETE"))
    return made


def _vertex(path: str, handler: Handler, cloud: Cloud, method: str = "GET") -> Route:
    """Refuses a project that has not enabled the API before anything else, faults included."""
    route = compute(path, handler, cloud, method, takes_body=method == "POST", root="/v1")
    inner = route.endpoint

    async def endpoint(request: Request) -> Response:
        project, location = request.path_params["project"], request.path_params["location"]
        try:
            if project in cloud.projects:
                cloud.vertex.check(project, location)
        except Refused as refused:
            return refusal(refused)
        answer: Response = await inner(request)
        return answer

    return Route(route.path, endpoint, methods=[method])


def _listing(collection: str) -> Handler:
    def answer(call: ApiCall) -> Any:
        holds = matching(call.query.get("filter", ""))
        shown = [
            one for one in call.cloud.vertex.listed(call.project, call.params["location"], collection) if holds(one)
        ]
        size = min(int(call.query.get("pageSize") or _MOST), _MOST)
        begin = int(call.query.get("pageToken") or 0)
        page: dict[str, Any] = {collection: shown[begin : begin + size]} if shown else {}
        return page | ({"nextPageToken": str(begin + size)} if begin + size < len(shown) else {})

    return answer


def _reading(collection: str) -> Handler:
    return lambda call: call.cloud.vertex.get(call.project, call.params["location"], collection, call.params["name"])


def _asking(collection: str, verb: str) -> Handler:
    return lambda call: call.cloud.vertex.ask(
        call.project, call.params["location"], collection, call.params["name"], verb, dict(call.body)
    )


def _operation(call: ApiCall) -> Any:
    return call.cloud.vertex.operation(call.project, call.params["location"], str(call.params["name"]))
