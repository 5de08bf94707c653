"""A request of the API: reading it, its faults, and the answer as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, bad_request, invalid, not_found, service_disabled
from costguard_sandbox.gce.faults import LONGEST_SILENCE_S, CloudFault, server_error
from costguard_sandbox.gce.filters import BadFilter
from costguard_sandbox.gce.render import instance_resource
from costguard_sandbox.gce.responses import MAX_RESULTS, BadMask, BadPageToken, compile_mask, position_of
from costguard_sandbox.gce.rights import ACCOUNT, permissions_of
from costguard_sandbox.serving import HalfResponse, drop_connection

USER_HEADER = "x-sandbox-user"
_CUT = b'{"kind": "compute#instanceAggregatedList", "items": {"zones/us-cen'
_HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in to go on</body></html>"


@dataclass(frozen=True, slots=True)
class ApiCall:
    """`params` are the path's, `query` the query's; `user` is as the caller claims."""

    cloud: Cloud
    method: str
    path: str
    params: Mapping[str, str]
    query: QueryParams
    body: Mapping[str, Any]
    user: str = ACCOUNT

    @property
    def project(self) -> str:
        """The project of the path, or the one that publishes images."""
        return self.params.get("project") or self.params.get("publisher", "")

    @property
    def request_id(self) -> str:
        return self.query.get("requestId", "")

    def required(self, key: str) -> str:
        """A query parameter. Raises Refused where it is missing."""
        if not (value := self.query.get(key, "")):
            raise Refused(400, "required", f"Required parameter: {key}")
        return value

    def flag(self, key: str, default: str = "") -> bool:
        """A boolean query parameter. Raises Refused for anything else, and where it is missing."""
        value = (self.query.get(key) or default or self.required(key)).lower()
        if value not in ("true", "false"):
            raise Refused(400, "invalidParameter", f"Invalid boolean value: '{value}'.")
        return value == "true"

    def max_results(self) -> int:
        """Compute Engine refuses more than 500."""
        given = self.query.get("maxResults", "500")
        if not given.isdecimal() or int(given) > 500:
            raise invalid("maxResults", given, "Must be a number from 0 to 500.")
        return int(given)


Handler = Callable[[ApiCall], Any]


def compute(
    path: str,
    handler: Handler,
    cloud: Cloud,
    method: str = "GET",
    *,
    cached: bool = False,
    takes_body: bool = False,
    before: Callable[[Cloud, Mapping[str, str]], Awaitable[None]] | None = None,
    root: str = "/compute/v1",
) -> Route:
    """A route of the Compute API. Answers of `cached` routes are kept until a VM, disk or fault changes.

    `takes_body`: the discovery document gives the method a `request`. `before` may delay the answer, with the cloud
    unlocked.
    """
    cache = _AnswerCache() if cached else None

    async def endpoint(request: Request) -> Response:
        try:
            call = _call(request, cloud, await request.body(), takes_body=takes_body)
            with cloud.settled():
                delay = cloud.faults.delay(call.params.get("project", ""), call.method, call.path)
            if delay:
                await asyncio.sleep(delay)
            if before is not None:
                await before(cloud, call.params)
            with cloud.settled():
                lost = cloud.faults.lose(call.params.get("project", ""), call.method, call.path)
                if lost is not None and lost.when == "later":
                    _do_later(call, handler, lost.seconds)
            answer = Response()
            if lost is None or lost.when in ("", "after"):
                answer = _answer(call, request, handler, cache)
            return answer if lost is None else await _lose(request, lost, answer)
        except Refused as refused:
            return refusal(refused)

    return Route(f"{root}{path}", endpoint, methods=[method])


def _do_later(call: ApiCall, handler: Handler, seconds: float) -> None:
    """The request is still on its way when its sender gives it up; that it is refused then, nobody learns."""

    def arrive() -> None:
        with suppress(Refused):
            handler(call)

    call.cloud.at(call.cloud.timeline.now + timedelta(seconds=seconds), arrive)


async def _lose(request: Request, fault: CloudFault, answer: Response) -> Response:
    if fault.how == "error":
        return refusal(server_error(fault.code))
    if fault.how == "half":
        return HalfResponse(answer.body or _CUT, media_type="application/json; charset=UTF-8")
    if fault.how == "silence":
        await asyncio.sleep(min(LONGEST_SILENCE_S, fault.seconds or LONGEST_SILENCE_S))
    return await drop_connection(request)


def control(path: str, handler: Handler, cloud: Cloud, methods: tuple[str, ...] = ("GET",)) -> Route:
    """A route outside the API, without faults."""

    async def endpoint(request: Request) -> Response:
        try:
            call = _call(request, cloud, await request.body())
            with cloud.settled():
                return _json(handler(call))
        except Refused as refused:
            return refusal(refused)

    return Route(path, endpoint, methods=list(methods))


def _call(request: Request, cloud: Cloud, raw: bytes, *, takes_body: bool = True) -> ApiCall:
    # Such VMs run programs as this user, so a web page must not create one; browsers send the origin.
    if cloud.guests and "origin" in request.headers:
        raise Refused(403, "forbidden", "Web pages may not use a simulated cloud whose VMs run as local processes.")
    try:
        body = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as broken:
        raise bad_request(f"Parse Error: {broken}") from None
    if not isinstance(body, dict):
        # Google ignores a body that a method does not take, such as libcloud's "ignored". The message is that of
        # Google's JSON reader (google-wallet/rest-samples issue 22).
        if takes_body:
            raise bad_request('Invalid JSON payload received. Unknown name "": Root element must be a message.')
        body = {}
    return ApiCall(
        cloud=cloud,
        method=request.method,
        path=request.url.path,
        params=request.path_params,
        query=request.query_params,
        body=body,
        user=request.headers.get(USER_HEADER, ACCOUNT),
    )


def _answer(call: ApiCall, request: Request, handler: Handler, cache: _AnswerCache | None) -> Response:
    cloud = call.cloud
    project = call.params.get("project", "")
    with cloud.settled():
        cloud.faults.refuse(project, call.method, call.path, cloud.timeline.now)
        if project and project not in cloud.projects:
            raise not_found(f"projects/{project}")
        _check_rights(call, project)
        garbage = cloud.faults.garble(project, call.method, call.path)
        if garbage is not None:
            if garbage.when == "after":
                handler(call)
            return _garbage(garbage, call)
        if cloud.faults.repeats(project, call.method, call.path):
            handler(call)
        mask = request.headers.get("x-goog-fieldmask", "") or call.query.get("fields", "")
        key = (call.path, request.url.query, mask)
        if cache is not None and (kept := cache.get(key, cloud)) is not None:
            return _bytes(kept)
        try:
            answer = _handled(call, handler)
            if mask:
                answer = compile_mask(mask)(answer)
        except (BadFilter, BadMask, BadPageToken) as wrong:
            raise Refused(400, "invalid", str(wrong)) from None
        rendered = _render(answer, indent=call.query.get("prettyPrint") != "false")
        if cache is not None:
            cache.put(key, cloud, rendered)
        return _bytes(rendered)


def _handled(call: ApiCall, handler: Handler) -> Any:
    try:
        return handler(call)
    except Refused as refused:
        call.cloud.on_refusal(call.method, call.path, call.user, call.body, refused)
        raise


def _check_rights(call: ApiCall, project: str) -> None:
    """Refuses what the account may not do in a new project, and what its APIs are off for, in the words of each API."""
    rights = call.cloud.rights
    if call.user != ACCOUNT or project not in rights.new or not permissions_of(call.method, call.path):
        return
    rights.new[project].calls[f"{call.method} {call.path}"] += 1
    title = "Compute Engine" if call.path.startswith("/compute/") else "Cloud Monitoring"
    api = "compute.googleapis.com" if title == "Compute Engine" else "monitoring.googleapis.com"
    if not rights.is_enabled(project, api):
        raise service_disabled(project_number(project), f"{title} API", api)
    if not (lacking := rights.lacks(project, call.method, call.path)):
        return
    if call.path.startswith("/compute/"):
        raise Refused(403, "forbidden", f"Required '{lacking[0]}' permission for 'projects/{project}'")
    raise Refused(
        403, "", f"Permission {lacking[0]} denied (or the resource may not exist).", status="PERMISSION_DENIED"
    )


def _garbage(fault: CloudFault, call: ApiCall) -> Response:
    """A 200 that tells nothing of what was asked for."""
    if fault.what == "html":
        return Response(_HTML, media_type="text/html; charset=UTF-8")
    if fault.what == "cut":
        return _bytes(_CUT)
    return _json(_other(call) if fault.what == "other" else {})


def _other(call: ApiCall) -> Mapping[str, Any]:
    """The answer to another request: an operation on another VM or, to a read, another VM."""
    cloud, name = call.cloud, call.params.get("name", "")
    if call.method != "GET":
        started = [one for one in cloud.operations.of(call.project) if not one.target_link.endswith(f"/{name}")]
        return started[-1].resource() if started else {}
    return next((instance_resource(cloud.links, vm) for vm in cloud.instances(call.project) if vm.name != name), {})


class _AnswerCache:
    """Rendered answers, valid until something in the cloud changes."""

    _MOST_BYTES = 128 * 2**20

    def __init__(self) -> None:
        self._state: tuple[Any, ...] = ()
        self._kept: dict[tuple[str, str, str], bytes] = {}
        self._bytes = 0

    def get(self, key: tuple[str, str, str], cloud: Cloud) -> bytes | None:
        state = (cloud.changes, cloud.faults.changes)
        if state != self._state:
            self._state = state
            self._kept.clear()
            self._bytes = 0
        return self._kept.get(key)

    def put(self, key: tuple[str, str, str], cloud: Cloud, rendered: bytes) -> None:
        fits = self._bytes + len(rendered) <= self._MOST_BYTES
        if fits and (cloud.changes, cloud.faults.changes) == self._state:
            self._kept[key] = rendered
            self._bytes += len(rendered)


def page_number(token: str | None, size: int) -> int:
    """The number of the page that a token names, from 1."""
    return position_of(token) // (size or MAX_RESULTS) + 1 if token else 1


def refusal(refused: Refused) -> Response:
    answer = _json(refused.body(), status=refused.code)
    if refused.retry_after:
        answer.headers["Retry-After"] = str(refused.retry_after)
    return answer


def _render(answer: Any, *, indent: bool) -> bytes:
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2 if indent else 0)


def _json(answer: Any, status: int = 200) -> Response:
    return _bytes(_render(answer, indent=True), status)


def _bytes(rendered: bytes, status: int = 200) -> Response:
    return Response(rendered, status_code=status, media_type="application/json; charset=UTF-8")
