"""HTTP/1.1 by uvicorn, with limits on how long a client may take: around its protocol, not in it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from costguard.web import problems
from costguard.web.connections import Connections, Place

HEALTH = frozenset({"/healthz", "/readyz"})
_BUSY = "The server has as many connections as it may."
_LATER = "Try again after the seconds in Retry-After."
_AGAIN = "Send the request again, in one piece."
_SLOW = "The request's {} did not come to an end in time."
_RETRY = {"Retry-After": "2", "Connection": "close"}
_CLOSE = {"Connection": "close"}
_PLAIN = "Send HTTP/1.1, without TLS on this port."
_VERSIONS = ("1.0", "1.1")
_ANNOUNCE_BODY = frozenset({b"content-length", b"transfer-encoding"})
_CLOSES = (b"connection", b"close")
_OVER_S = 2.0  # the longest wait on a connection for the health check alone


GivesAway = Callable[[asyncio.Transport, bytes], bool]  # a connection with its first data, to another process
IsOurs = Callable[[Scope], bool]  # whether the connection may go on after this request


class HttpConnection(asyncio.Protocol):
    """A connection of uvicorn's, which stops its own clock at the first byte that comes.

    The time limits: before and between requests, for a head, for a body, and for reading an answer. `first` is what
    another process has read of it already.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
        gives_away: GivesAway = lambda _transport, _data: False,
        is_ours: IsOurs = lambda _scope: True,
        first: bytes = b"",
    ) -> None:
        self._app: ASGIApp = config.loaded_app
        ours = copy.copy(config)
        ours.loaded_app = self._answer
        self._http = H11Protocol(ours, server_state, app_state, _loop)
        self._loop = self._http.loop
        self._all, self._limits, self._first = connections, connections.limits, first
        self._gives_away, self._is_ours = gives_away, is_ours
        self._place = Place.NONE
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._running = 0  # requests; their answers may be followed by the next before their work is over
        self._has_data = self._is_half_sent = False  # data came since the last request; its body is not all here

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._transport = transport
        self._place = self._all.open(self, self._address)
        if self._place is Place.NONE:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, _LATER, _RETRY)
            return
        self._http.connection_made(transport)
        self._within(self._limits.idle, self._end_idle)
        if self._first:
            self.data_received(self._first)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear()
        self._all.closed(self)
        if self._place is not Place.NONE:
            self._http.connection_lost(exc)

    def eof_received(self) -> None:
        if self._place is not Place.NONE:
            self._http.eof_received()

    def data_received(self, data: bytes) -> None:
        if self._place is Place.NONE:
            return
        is_first = not self._has_data and not self._running
        if is_first and self._is_between_requests and self._gives_away(self._transport, data):
            self._transport.abort()  # the other process has it
            return
        if is_first:
            self._within(self._limits.head, self._end_head)
        self._has_data = self._has_data or not self._running
        try:
            self._http.data_received(data)
        except h11.LocalProtocolError:  # garbage within a body whose answer has begun: uvicorn begins another
            self._transport.abort()

    def pause_writing(self) -> None:
        self._http.pause_writing()
        self._all.waits(self)
        self._within(self._limits.write, self._end_unread)

    def resume_writing(self) -> None:
        self._http.resume_writing()
        self._clear()
        if self._running:
            self._all.works(self)
        else:
            self._within(self._limits.idle, self._end_idle)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._running += 1
        self._has_data = False
        self._clear()
        self._all.works(self)
        try:
            await self._within_limits(scope, receive, send)
        finally:
            self._running -= 1
            self._all.answered += 1
            if not self._running and not self._transport.is_closing():
                self._all.waits(self)
                self._within(self._limits.idle, self._end_idle)

    async def _within_limits(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(self, scope, receive, self._limits.body)
        closes = not self._is_ours(scope)
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            if body.is_late or self._transport.is_closing():
                return
            has_begun = True
            if closes and message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), _CLOSES]}
            await send(message)

        app: ASGIApp = self._app
        if self._place is Place.HEALTH and scope["path"] not in HEALTH:
            app = problems.response(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, _LATER, path=scope["path"], headers=_RETRY)
        try:
            await app(scope, body.receive, sending)
        except Exception:
            if not body.is_late:
                raise
        self._is_half_sent = body.is_coming
        if not body.is_late:
            while self._transport.is_closing() and (await receive())["type"] != "http.disconnect":
                pass  # uvicorn has refused garbage in its body, and would complain of a request without an answer
            return
        self._all.sparse.warn("connections_closed", why="half-sent body", address=self._address)
        if has_begun:
            self._transport.abort()
            return
        late = problems.response(
            HTTPStatus.REQUEST_TIMEOUT, _SLOW.format("body"), _AGAIN, path=scope["path"], headers=_CLOSE
        )
        await late(scope, receive, send)

    def waits_for_body(self, is_so: bool) -> None:
        (self._all.waits if is_so else self._all.works)(self)

    @property
    def _is_between_requests(self) -> bool:
        """Says whether all of the last answer was sent, and nothing of its request is to come."""
        return not self._is_half_sent and not self._transport.get_write_buffer_size()

    @property
    def _address(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    def _within(self, seconds: float, end: Callable[[], None]) -> None:
        self._clear()
        if self._place is Place.HEALTH:
            seconds = min(seconds, _OVER_S)
        self._timer = self._loop.call_later(seconds, end)

    def _clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_idle(self) -> None:
        """A client that connected ahead of need would take a 408 for the answer to its first request."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def _end_head(self) -> None:
        self._all.sparse.warn("connections_closed", why="half-sent headers", address=self._address)
        if not self._is_between_requests:
            self._transport.abort()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, _SLOW.format("headers"), _AGAIN, _CLOSE)

    def _end_unread(self) -> None:
        self._all.sparse.warn("connections_closed", why="unread answer", address=self._address)
        self._transport.abort()

    def _refuse(self, status: HTTPStatus, detail: str, what_next: str, headers: dict[str, str]) -> None:
        """Answers without uvicorn, which has nothing to answer yet, and closes."""
        answer = problems.response(status, detail, what_next, path="", headers=headers)
        lines = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
        self._transport.write(b"%s%s\r\n%s" % (head, lines, bytes(answer.body)))
        self._transport.close()


class _Body:
    """The body of a request, which has to come in time; what the application takes to read it is not counted."""

    def __init__(self, connection: HttpConnection, scope: Scope, receive: Receive, within_s: float) -> None:
        self._connection, self._receive, self._left_s = connection, receive, within_s
        self.is_coming = any(name in _ANNOUNCE_BODY for name, _ in scope["headers"])
        self.is_late = False

    async def receive(self) -> Message:
        """The client of a body that is late counts as gone."""
        if not self.is_coming:
            return await self._receive()
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._connection.waits_for_body(True)
        try:
            async with asyncio.timeout(self._left_s):
                message = await self._receive()
        except TimeoutError:
            self.is_late = True
            return {"type": "http.disconnect"}
        finally:
            self._connection.waits_for_body(False)
        self._left_s -= loop.time() - began
        self.is_coming = message.get("more_body", False)
        return message


class Unambiguous:
    """Refuses what h11 lets through, and a proxy may read otherwise: two lengths of one body, versions of no server.

    RFC 9112, section 6.3, allows to refuse the first; the connection must not be used again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refused(scope) if scope["type"] == "http" else None
        await (self._app if refused is None else refused)(scope, receive, send)

    def _refused(self, scope: Scope) -> ASGIApp | None:
        names = [name for name, _ in scope["headers"]]
        if scope["http_version"] not in _VERSIONS:
            status, detail = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"This is HTTP/{scope['http_version']}."
        elif b"transfer-encoding" in names and (b"content-length" in names or scope["http_version"] == "1.0"):
            status, detail = HTTPStatus.BAD_REQUEST, "The body's length is given in two ways, or in one HTTP/1.0 lacks."
        else:
            return None
        return problems.response(status, detail, _PLAIN, path=scope["path"], headers=_CLOSE)
