"""Shares renderings: one for all callers with the same permissions, a few at a time.

A rendering that is shared is made for a stand-in, who has the permissions of those who ask and nothing else of theirs:
what the application never gets, it cannot show to others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.datastructures import Headers
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from costguard.errors import StoreError
from costguard.model.access import Permission, Principal
from costguard.web import problems
from costguard.web.permissions import asker
from costguard.web.placeholders import CSRF, any_reader, filling, stand_in
from costguard.web.questions import answer_in_turn, is_question, person
from costguard.web.rendering import QueueFull, Rendering, Sharing, rendered

_RETRY_S = 2
_MIN_ZIPPED = 1000
# All that a rendering may depend on; what else a request brings, the application does not get.
_READ = frozenset({b"accept", b"host", b"hx-request"})
_FOR_PROGRAMS = ("/api/v1/", "/metrics")
_KEPT_OF_304 = ("etag", "cache-control")


class SharingMiddleware:
    """The middleware, inside of authentication; without `sharing` it passes everything on."""

    def __init__(self, app: ASGIApp, sharing: Sharing | None = None) -> None:
        self._app, self._sharing, self._kind = app, sharing, GetKinds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal, sharing = scope.get("state", {}).get("principal"), self._sharing
        if scope["type"] != "http" or sharing is None or not isinstance(principal, Principal):
            await self._app(scope, receive, send)
            return
        is_change = scope["method"] != "GET"
        try:
            if is_question(scope):
                await answer_in_turn(sharing.questions, self._app, scope, receive, send, person(principal))
                return
            match GetKind.CHEAP if is_change else self._kind(scope, principal):
                case GetKind.CHEAP:
                    await self._app(scope, receive, send)
                case GetKind.EXPORT:
                    await answer_in_turn(sharing.exports, self._app, scope, receive, send, person(principal))
                case GetKind.SEARCH:
                    async with sharing.searches.turn(person(principal)):
                        await self._app(scope, receive, send)
                case GetKind.FORM:
                    async with sharing.forms.turn(principal.key):
                        await self._app(scope, receive, send)
                case kind:
                    await self._answer(sharing, scope, receive, send, principal, kind)
        except QueueFull:
            await _crowded(scope)(scope, receive, send)
        finally:
            sharing.changes += is_change  # who changed something sees it in what they ask for next

    async def _answer(
        self, sharing: Sharing, scope: Scope, receive: Receive, send: Send, principal: Principal, kind: GetKind
    ) -> None:
        headers = Headers(scope=scope)
        seen_by, csrf = _seen_by(scope, principal, kind), scope["state"]["csrf"]
        request_headers = [(name, value) for name, value in scope["headers"] if name in _READ]
        inner = {
            **scope,
            "client": None if kind is GetKind.ALIKE else scope.get("client"),
            "headers": request_headers,
            "state": {**scope["state"], "principal": seen_by, "csrf": CSRF if csrf and kind is GetKind.ALIKE else csrf},
        }
        key = (scope["path"], scope["query_string"], scope["scheme"], tuple(request_headers), seen_by)
        try:
            rendering = await sharing.one(key, principal.key, lambda memo: rendered(self._app, inner, memo))
        except StoreError:
            async with sharing.renderings.turn(principal.key):  # the application says what is wrong
                await self._app(scope, receive, send)
            return
        if kind is GetKind.ALIKE and not rendering.is_kept:
            await self._answer(sharing, scope, receive, send, principal, GetKind.OWN)
            return
        scope["route"] = rendering.route
        await _send(rendering, headers, filling(principal, csrf), send)


def _seen_by(scope: Scope, principal: Principal, kind: GetKind) -> Principal:
    """The stand-in that the application sees in place of the caller."""
    if kind is not GetKind.ALIKE:
        return principal
    return any_reader(principal) if scope["path"].startswith(_FOR_PROGRAMS) else stand_in(principal)


async def _send(rendering: Rendering, request_headers: Headers, values: Mapping[bytes, bytes], send: Send) -> None:
    tag = next((value.decode() for name, value in rendering.headers if name.lower() == b"etag"), "")
    headers = [(name, value) for name, value in rendering.headers if name.lower() != b"content-length"]
    if tag and is_known(tag, request_headers.get("if-none-match", "")):
        kept = [(name, value) for name, value in headers if name.lower().decode() in _KEPT_OF_304]
        await send({"type": "http.response.start", "status": HTTPStatus.NOT_MODIFIED, "headers": kept})
        await send({"type": "http.response.body", "body": b""})
        return
    if rendering.shared_text.size >= _MIN_ZIPPED and "gzip" in request_headers.get("accept-encoding", ""):
        body = rendering.shared_text.zipped(values)
        headers.append((b"content-encoding", b"gzip"))
    else:
        body = rendering.shared_text.filled(values)
    headers += [(b"vary", b"Accept-Encoding"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": rendering.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _crowded(scope: Scope) -> ASGIApp:
    return problems.response(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Too many answers are being made at the moment.",
        "Ask again after the seconds in Retry-After; what is done to VMs and jobs does not wait for this.",
        path=scope["path"],
        headers={"Retry-After": str(_RETRY_S)},
    )


_TAG = re.compile(r'(?:W/)?("[^"]*")')


def is_known(tag: str, if_none_match: str) -> bool:
    """Says whether If-None-Match names this ETag. Weak or strong does not matter for reading."""
    return if_none_match.strip() == "*" or tag.removeprefix("W/") in _TAG.findall(if_none_match)


class GetKind(Enum):
    """The way in which the response of a GET may be shared."""

    CHEAP = "cheap"  # never queued
    EXPORT = "export"  # goes on as long as its reader reads
    SEARCH = "search"  # reads stored output, which takes as long as its bucket does
    FORM = "form"  # made for one person, once: what is done with it must not wait for pages
    OWN = "own"  # may differ from person to person
    ALIKE = "alike"  # the same for all with the same permissions, but for what is filled in


_CHEAP = frozenset({"/api/v1", "/api/v1/events/stream", "/api/v1/me", "/problems/{kind}"})
# Pages that differ only in what their viewer may do: nothing, for who may not act at all.
_OF_ACTORS = frozenset({"/", "/vm/{project}/{gce_id}", "/jobs", "/jobs/{job_id}"})
_READS_OUTPUT = "/jobs/{job_id}/output"  # over REST only where more is asked for than what its agent reported last
_ACTS = (Permission.INSTANCES, Permission.JOBS)
_MOST_PATHS = 2_000


class GetKinds:
    """The kinds of an application's paths; its routes are read with the first request."""

    def __init__(self) -> None:
        self._routes: list[RouteContext] | None = None
        self._known: dict[str, GetKind] = {}

    def __call__(self, scope: Scope, principal: Principal) -> GetKind:
        path = scope["path"]
        if path.startswith(("/static/", "/sign-in", "/healthz", "/readyz")):
            return GetKind.CHEAP
        kind = self._known.get(path)
        if kind is None:
            if len(self._known) >= _MOST_PATHS:
                self._known.clear()
            kind = self._known[path] = self._of(scope)
        if kind is GetKind.SEARCH and path.startswith(_FOR_PROGRAMS) and not scope["query_string"]:
            return GetKind.ALIKE
        is_actor = any(principal.may(act) for act in _ACTS)
        return GetKind.ALIKE if kind is GetKind.OWN and not is_actor else kind

    def _of(self, scope: Scope) -> GetKind:
        if self._routes is None:
            contexts = iter_route_contexts(scope["app"].routes)
            self._routes = [context for context in contexts if "GET" in (context.methods or ())]
        route = next((route for route in self._routes if route.path_regex.match(scope["path"])), None)
        return kind_of(route) if route else GetKind.CHEAP  # there is no such path, or nothing to make


def kind_of(route: RouteContext) -> GetKind:
    path, dependant = route.path or "", getattr(route, "dependant", None)
    if path in _CHEAP:
        return GetKind.CHEAP
    if getattr(route, "response_class", None) is StreamingResponse:
        return GetKind.EXPORT
    if path.endswith(_READS_OUTPUT):
        return GetKind.SEARCH
    if dependant is not None and not _asks_who(dependant):
        return GetKind.ALIKE
    return GetKind.OWN if path in _OF_ACTORS else GetKind.FORM


def _asks_who(dependant: Dependant) -> bool:
    call: Any = dependant.call
    return call is asker or any(map(_asks_who, dependant.dependencies))
