"""Clients take a bounded amount of a server, over raw sockets: time, connections, bytes, and lines of its log."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from structlog.testing import capture_logs
from tests.waiting import PATIENCE_S, until

from costguard.web.connections import OVER, ConnectionLimits
from costguard.web.server import Server

_LONG = 600.0
_SHORT = 0.3
_HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
_ENDLESS = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
# What a TLS client says first: a handshake record, version 3.1, of 512 bytes (RFC 8446, section 5.1).
_TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506)
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113, section 3.4


class Served:
    """`busy` requests wait until `go_on` is set."""

    def __init__(self, server: Server, port: int) -> None:
        self.server, self.port = server, port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def asked(self, request: bytes) -> bytes:
        """All that is answered until the server closes."""
        with self.connect() as client:
            client.sendall(request)
            return _all(client)


@contextmanager
def served(listener: socket.socket | None = None, **limits: float) -> Iterator[Served]:
    going = threading.Event()

    def health(_request: Request) -> Response:
        return PlainTextResponse("alive")

    async def echo(request: Request) -> Response:
        return PlainTextResponse(await request.body())

    async def busy(_request: Request) -> Response:
        while not going.is_set():
            await asyncio.sleep(0.01)
        return PlainTextResponse("done")

    async def large(_request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(1000):
                yield bytes(1 << 20)

        return StreamingResponse(parts())

    routes = [Route("/healthz", health), Route("/echo", echo, methods=["POST"]), Route("/busy", busy)]
    given = {"head": _LONG, "body": _LONG, "idle": _LONG, "write": _LONG, "most": 100} | limits
    server = Server(Starlette(routes=[*routes, Route("/large", large)]), limits=ConnectionLimits(**given))  # type: ignore[arg-type]
    with listener or socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield Served(server, listening.getsockname()[1])
        finally:
            going.set()
            server.stop()
            thread.join()


def _all(client: socket.socket) -> bytes:
    received = b""
    with suppress(ConnectionResetError):
        while part := client.recv(65536):
            received += part
    return received


def _status(answer: bytes) -> int:
    return int(answer.split()[1])


def _problem(answer: bytes) -> dict[str, object]:
    body: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return body


def _trickled(client: socket.socket, byte: bytes) -> bytes:
    """Returns the answer to a client that goes on sending, a byte at a time."""
    client.settimeout(0.05)
    for _ in range(int(PATIENCE_S / 0.05)):
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(byte)
        try:
            return client.recv(65536)
        except TimeoutError:
            continue
        except ConnectionResetError:
            return b""
    raise AssertionError("the server went on waiting")


def test_headers_that_trickle_are_given_up() -> None:
    """Each byte that comes stops uvicorn's own timer for ever; here the headers have one time limit."""
    with served(head=_SHORT) as at, at.connect() as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        answer = _trickled(client, b"a")
    assert _status(answer) == 408
    assert "headers" in str(_problem(answer)["detail"])


@pytest.mark.parametrize("before", [b"", _HEALTH], ids=["from the beginning", "after an answer"])
def test_idle_connections_are_closed_without_a_word(before: bytes) -> None:
    """A browser that connected ahead of need would take a 408 for the answer to its first request."""
    with served(idle=_SHORT) as at:
        answer = at.asked(before)
    assert answer.count(b"HTTP/1.1") == (1 if before else 0)


@pytest.mark.parametrize(
    "head",
    [b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", _ENDLESS + b"ffffff\r\n"],
    ids=["of a length", "chunked"],
)
def test_bodies_that_trickle_are_given_up(head: bytes) -> None:
    """A body has one time limit as well, with a length or in chunks that never end."""
    with served(body=_SHORT) as at, at.connect() as client:
        client.sendall(head)
        answer = _trickled(client, b"a") + _all(client)
    assert _status(answer) == 408
    assert "body" in str(_problem(answer)["detail"])


def test_slow_clients_within_the_limits_are_served() -> None:
    """Headers and body in pieces, on one connection, and again."""
    with served() as at, at.connect() as client:
        for _ in range(2):
            for part in (b"POST /echo HT", b"TP/1.1\r\nHost: a\r\nContent-Len", b"gth: 5\r\n\r\n", b"he", b"llo"):
                client.sendall(part)
            answer = b""
            while not answer.endswith(b"hello"):
                answer += client.recv(65536)
            assert _status(answer) == 200


def test_pipelined_requests_are_answered_in_order() -> None:
    """Two requests in one packet, of which the second ends the connection."""
    body = b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
    with served() as at:
        answer = at.asked(_HEALTH + body)
    assert answer.index(b"alive") < answer.index(b"hi", answer.index(b"alive"))


def test_answers_that_nobody_reads_are_given_up() -> None:
    """A client that asks for a gigabyte and reads none of it does not keep its connection, nor the answer's bytes."""
    with served(write=_SHORT) as at, at.connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: len(at.server.open) == 1)
        until(lambda: len(at.server.open) == 0)


@pytest.mark.parametrize("garbage", [_TLS, _HTTP2, b"\x00\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_not_http_is_refused(garbage: bytes) -> None:
    """TLS or HTTP/2 on the plain port, plain garbage, and a version that no server has."""
    with served() as at:
        answer = at.asked(garbage)
    assert _status(answer) in (400, 505)


@pytest.mark.parametrize(
    "headers",
    [b"X-Large: " + b"a" * 40_000, b"\r\n".join(b"x-%d: a" % number for number in range(5_000))],
    ids=["one large", "thousands"],
)
def test_header_floods_are_refused(headers: bytes) -> None:
    """A request may have 16 KiB of headers, in one large or in many small ones."""
    with served() as at, at.connect() as client:
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + headers)
        answer = _all(client)
    assert not answer or _status(answer) == 400  # a reset may overtake the answer


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 3\r\nContent-Length: 5",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding : chunked",
    ],
)
def test_bodies_of_two_lengths_are_refused(headers: bytes) -> None:
    """RFC 9112, sections 5.1 and 6.3: where a proxy may count otherwise, the rest would pass for a request."""
    with served() as at:
        answer = at.asked(b"POST /echo HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n\r\n0\r\n\r\n" + _HEALTH)
    assert _status(answer) in (400, 501)
    assert len(re.findall(rb"^HTTP/1\.1 \d", answer, re.M)) == 1


def test_a_flood_of_garbage_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Fifty of a kind within a minute; before, each was a line, and broken bodies were a traceback each."""
    broken = _ENDLESS.replace(b"/echo", b"/busy") + b"zz\r\n"
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    with caplog.at_level(logging.WARNING), served() as at:
        for request in (_TLS, broken, upgrade):
            for _ in range(50):
                at.asked(request)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == len(set(texts)), texts
    assert len(texts) < 6, texts


def test_garbage_within_a_body_ends_the_connection_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The answer has begun, so there is none left to give; uvicorn's own attempt at one raised an error."""
    with served() as at, at.connect() as client:
        client.sendall(b"POST /large HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert _status(client.recv(12)) == 405
        client.sendall(b"zz\r\n")
        _all(client)
    assert not [record for record in caplog.records if record.exc_info], caplog.text


def test_half_sent_requests_make_room() -> None:
    """All that there may be are open and wait: one more is answered at once, and one line of the log says why."""
    with capture_logs() as logged, served(most=4) as at, ExitStack() as others:
        for _ in range(4 + OVER):
            others.enter_context(at.connect()).sendall(b"GET / HTTP/1.1\r\nX: ")
        with at.connect() as client:
            client.sendall(_HEALTH)
            assert _status(client.recv(65536)) == 200
        assert len(at.server.open) <= 4
    assert [line["event"] for line in logged] == ["connections_closed"]


def test_half_sent_bodies_make_room() -> None:
    """The application has begun to read them, and waits for their clients all the same."""
    with served(most=4) as at, ExitStack() as others:
        for _ in range(4):
            other = others.enter_context(at.connect())
            other.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
            assert _status(other.recv(65536)) == 100  # it is being read
        assert (
            _status(at.asked(b"POST /echo HTTP/1.1\r\nConnection: close\r\nHost: a\r\nContent-Length: 0\r\n\r\n"))
            == 200
        )


def test_the_health_check_is_answered_where_all_connections_are_busy() -> None:
    """A connection beyond the most is for the health check alone; beyond that, a 503 comes without any parsing."""
    with served(most=2) as at, ExitStack() as others:
        for _ in range(2):
            others.enter_context(at.connect()).sendall(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: len(at.server.open) == 2)
        with at.connect() as client:
            client.sendall(_HEALTH)
            assert _status(client.recv(65536)) == 200
        refused = at.asked(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        assert _status(refused) == 503
        assert b"retry-after: 2" in refused.lower()


class Starved(socket.socket):
    """A listener of a process without descriptors, until `tries` attempts have failed."""

    tries = 3

    def accept(self) -> tuple[socket.socket, object]:
        if self.tries:
            self.tries -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_a_lack_of_descriptors_is_waited_out() -> None:
    """asyncio reports each failed attempt with a traceback; here they are one line, and a second later it goes on."""
    starved = Starved(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with capture_logs() as logged, served(starved) as at, at.connect() as client:
        client.sendall(_HEALTH)
        assert _status(client.recv(65536)) == 200
    assert [line["event"] for line in logged] == ["connections_not_accepted"]
