"""Writes down every request to the simulated cloud, one line of JSON each."""

from __future__ import annotations

from typing import IO

import orjson
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from costguard_sandbox.clock import WorldClock
from costguard_sandbox.gce.routes.call import USER_HEADER


class RequestLog:
    """Wraps an application. A line is written when the answer begins, or when the request ends without one.

    Its keys: `at` is when the request came, by the world's clock, `host` the address that the client called, `user`
    whom it claims to be, "" for the service account; then `method`, `path`, `query`, and `status`, null where the
    connection broke without an answer.
    """

    def __init__(self, app: ASGIApp, file: IO[bytes], clock: WorldClock) -> None:
        self._app = app
        self._file = file
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        line = {
            "at": self._clock.now().isoformat(timespec="milliseconds"),
            "host": headers.get("host", ""),
            "user": headers.get(USER_HEADER, ""),
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode("latin-1"),
        }
        is_written = False

        def write(status: int | None) -> None:
            nonlocal is_written
            is_written = True
            self._file.write(orjson.dumps(line | {"status": status}) + b"\n")
            self._file.flush()

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                write(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            if not is_written:
                write(None)
