"""Prometheus metrics that the serving processes count and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from prometheus_client import Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from costguard.daemon.meters import process_registry
from costguard.daemon.metrics import EventCounts
from costguard.model.access import Via

_ANSWER_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Meters:
    """The counters of the serving process. Thread-safe.

    Counters begin at nothing with the process, as Prometheus expects.
    """

    def __init__(self, version: str = "") -> None:
        self.registry = process_registry()
        self.events = EventCounts()
        build = Gauge(
            "costguard_build_info", "Always 1; the label says which version runs.", ["version"], registry=self.registry
        )
        build.labels(version).set(1)
        self._answers = Histogram(
            "costguard_http_request_duration_seconds",
            "How long requests took, by route and class of status. Of a stream: until it began.",
            ["route", "method", "status"],
            buckets=_ANSWER_BUCKETS,
            registry=self.registry,
        )
        self._sign_ins = Counter(
            "costguard_sign_ins_total",
            "Tries to sign in, by way and by what came of them.",
            ["via", "outcome"],
            registry=self.registry,
        )
        for via in (Via.LINK, Via.OIDC):  # there from the beginning, so that the first refusal is an increase
            for outcome in ("in", "refused"):
                self._sign_ins.labels(via.value, outcome)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        self._answers.labels(route, method, f"{status // 100}xx").observe(seconds)

    def signed_in(self, via: Via, is_in: bool) -> None:
        self._sign_ins.labels(via.value, "in" if is_in else "refused").inc()


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
