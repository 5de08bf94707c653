"""A uvicorn server that starts and ends fast, and connections that break without an answer, or within one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_PATIENCE_S = 2.0


class QuickServer(uvicorn.Server):
    """Ends at once; uvicorn itself polls ten times a second, then waits for every client."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="auto"))
        self._wake: Callable[[], object] = lambda: None

    def end(self) -> None:
        """End the server, from any thread."""
        self.should_exit = True
        with suppress(RuntimeError):  # it has already ended
            self._wake()

    async def main_loop(self) -> None:
        ended = asyncio.Event()
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set)
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), 0.1)  # a signal does not set it

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the requests under way; drop the idle connections."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while self.server_state.connections and not self.force_exit:
                    await asyncio.sleep(0.005)


async def drop_connection(request: Request) -> Response:
    """End the connection without a byte of an answer."""
    await _abort(request.receive)
    return Response(status_code=503)


class HalfResponse(Response):
    """The connection breaks after half of the content, of which the headers give the whole length."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as Response has it
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = bytes(self.body[: len(self.body) // 2])
        await send({"type": "http.response.body", "body": half, "more_body": True})
        await _abort(receive)


async def _abort(receive: Receive) -> None:
    cycle = getattr(receive, "__self__", None)  # ASGI cannot do it; uvicorn's own object can
    transport = getattr(cycle, "transport", None)
    if transport is not None:
        transport.abort()
        await asyncio.sleep(0)
