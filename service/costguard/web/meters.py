"""The middleware that times requests for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Stopwatch(Protocol):
    def answered(self, route: str, method: str, status: int, seconds: float) -> None: ...


class TimingMiddleware:
    """A route is known by its template: what people put into addresses makes no series of its own."""

    def __init__(self, app: ASGIApp, meters: Stopwatch, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._app, self._meters, self._seconds = app, meters, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._seconds()
        status = 500
        until: float | None = None

        async def watching(message: Message) -> None:
            nonlocal status, until
            if message["type"] == "http.response.start":
                status = message["status"]
                if _is_stream(message):
                    until = self._seconds()
            await send(message)

        try:
            await self._app(scope, receive, watching)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            ended = self._seconds() if until is None else until
            self._meters.answered(_route(scope), method, status, ended - began)


def _route(scope: Scope) -> str:
    template = getattr(scope.get("route"), "path", None)
    if isinstance(template, str):
        return template
    return "/static" if scope["path"].startswith("/static/") else "none"


def _is_stream(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in message["headers"])
