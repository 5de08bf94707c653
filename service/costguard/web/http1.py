"""HTTP/1.1 by uvicorn, with limits on how long a client may take."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from costguard.web import problems
from costguard.web.connections import ConnectionPhase, Connections

HEALTH = frozenset({"/healthz", "/readyz"})
_BUSY = "The server has as many connections as it may."
_LATER = "Try again after the seconds in Retry-After."
_RETRY = {"Retry-After": "2", "Connection": "close"}
_PLAIN = "Send HTTP/1.1, without TLS on this port."
_VERSIONS = ("1.0", "1.1")
_WHAT_NEXT = {
    HTTPStatus.REQUEST_TIMEOUT: "Send the request again, in one piece.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "Send fewer or shorter headers: 16 KiB in all.",
}


class Http1(H11Protocol):
    """uvicorn stops counting at the first byte that comes: a client that never sends the rest would stay for ever."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        all_connections: Connections,
        logger: logging.Logger,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all, self.logger = all_connections, logger
        self._phase, self.since = ConnectionPhase.IDLE, all_connections.now()
        self.address, self.is_over = "", False

    @property
    def phase(self) -> ConnectionPhase:
        """A body that the application does not read yet cannot come further: the sender is not to blame."""
        now = self._phase_now()
        if now is ConnectionPhase.BODY and self.flow.read_paused and not self.cycle.response_complete:
            now = ConnectionPhase.BUSY
        if now is not self._phase:
            self._phase, self.since = now, self._all.now()
            self._all.changed(self)
        return now

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.is_over = self._all.opened(self)
        if self.is_over:
            self.app = _health_alone(self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        _ = self.phase

    def on_response_complete(self) -> None:
        super().on_response_complete()
        _ = self.phase

    def pause_writing(self) -> None:
        super().pause_writing()
        _ = self.phase

    def resume_writing(self) -> None:
        super().resume_writing()
        _ = self.phase

    def expire(self, phase: ConnectionPhase) -> None:
        if phase is ConnectionPhase.UNREAD or self.transport.is_closing():
            self.abort()
        elif phase is ConnectionPhase.IDLE:
            self.transport.close()
        else:
            what = "headers" if phase is ConnectionPhase.HEAD else "body"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"The request's {what} did not come to an end in time.")

    def abort(self) -> None:
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls this while it handles the parser's error, which knows the better status."""
        error = sys.exc_info()[1]
        status = HTTPStatus(error.error_status_hint) if isinstance(error, h11.RemoteProtocolError) else None
        self._refuse(status or HTTPStatus.BAD_REQUEST, msg)

    def _phase_now(self) -> ConnectionPhase:
        if self.transport.is_closing() or self.flow.write_paused:
            return ConnectionPhase.UNREAD
        if self.conn.their_state is h11.IDLE:
            return ConnectionPhase.HEAD if self.conn.trailing_data[0] else ConnectionPhase.IDLE
        if self.conn.their_state is h11.SEND_BODY:
            return ConnectionPhase.BODY
        return ConnectionPhase.IDLE if self.cycle is None or self.cycle.response_complete else ConnectionPhase.BUSY

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answers where the answer has not begun, and closes; what runs for this request hears that its client left."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.abort()
            return
        what_next = _WHAT_NEXT.get(status, _PLAIN)
        answer = problems.response(status, detail, what_next, path="", headers={"Connection": "close"})
        events: tuple[h11.Event, ...] = (
            h11.Response(status_code=status, headers=answer.raw_headers, reason=status.phrase.encode()),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        )
        with suppress(h11.LocalProtocolError):
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()


def refusal() -> bytes:
    """Returns the answer to a client that cannot be let in, as it goes over the wire."""
    answer = problems.response(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, _LATER, path="", headers=_RETRY)
    lines = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
    return b"HTTP/1.1 503 Service Unavailable\r\n%s\r\n%s" % (lines, bytes(answer.body))


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
        return problems.response(status, detail, _PLAIN, path=scope["path"], headers={"Connection": "close"})


def _health_alone(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path in HEALTH:
            await app(scope, receive, send)
            return
        busy = problems.response(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, _LATER, path=path, headers=_RETRY)
        await busy(scope, receive, send)

    return answer
