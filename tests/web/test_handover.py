"""Connections that bring agents' reports go to the process for reports, whatever the one for pages is doing."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.waiting import PATIENCE_S, until

from costguard.web.handover import Giving, Taking
from costguard.web.server import Server

REPORT, PAGE = "/api/v1/attempts/j1-a1/events", "/jobs"


class Pair:
    """Two servers, as the two processes have them: each answers with its name. Pages wait for `go_on`."""

    def __init__(self, port: int, pages: Server, reports: Server) -> None:
        self.port, self.pages, self.reports = port, pages, reports
        self.go_on = threading.Event()
        self.go_on.set()

    def connect(self) -> closing[HTTPConnection]:
        return closing(HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S))

    def asked_alone(self, path: str, body: str = "") -> str:
        with self.connect() as client:
            return ask(client, path, body)


def ask(client: HTTPConnection, path: str, body: str = "") -> str:
    """Returns who answered, and what of the request arrived."""
    client.request("POST" if path == REPORT else "GET", path, body.encode())
    return client.getresponse().read().decode()


@contextmanager
def pair(with_reports: bool = True) -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    servers: list[Server] = []

    def application(name: str) -> Starlette:
        async def answer(request: Request) -> Response:
            while request.url.path == PAGE and not made.go_on.is_set():
                await asyncio.sleep(0.01)
            return PlainTextResponse(f"{name} {(await request.body()).decode()}".strip())

        return Starlette(routes=[Route(REPORT, answer, methods=["POST"]), Route(PAGE, answer)])

    with ours, theirs, socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        servers = [
            Server(application("pages"), share=Giving(ours)),
            Server(application("reports"), share=Taking(theirs)),
        ]
        made = Pair(listener.getsockname()[1], *servers)
        for server, listeners in zip(servers, ([listener], []), strict=True):
            if server is made.pages or with_reports:
                thread = threading.Thread(target=server.run, args=(listeners,))
                thread.start()
                stack.callback(thread.join)
        try:
            yield made
        finally:
            made.go_on.set()
            for server in servers:
                server.stop()
            if not with_reports:
                theirs.close()  # a server that waited for it would never end


def test_reports_are_answered_by_their_own_process() -> None:
    """They come with the body that was read and the one that comes later; a page stays where it is."""
    with pair() as at:
        assert at.asked_alone(PAGE) == "pages"
        assert at.asked_alone(REPORT, "short") == "reports short"
        large = "x" * 300_000
        with at.connect() as client:
            client.putrequest("POST", REPORT)
            client.putheader("Content-Length", str(len(large)))
            client.endheaders(b"x")
            until(lambda: len(at.reports.open) == 1)
            client.send(large[1:].encode())
            assert client.getresponse().read().decode() == f"reports {large}"
        until(lambda: len(at.pages.open) == 0 or len(at.reports.open) == 0)


def test_one_connection_may_carry_both() -> None:
    """A proxy sends both: a report moves it, and a page ends it at the process for reports: the next finds its own."""
    with pair() as at, at.connect() as client:
        assert [ask(client, path) for path in (PAGE, REPORT, REPORT, PAGE, PAGE)] == [
            "pages", "reports", "reports", "reports", "pages"
        ]  # fmt: skip


def test_pages_answer_reports_where_their_process_is_behind() -> None:
    """The process for reports has hung or is being replaced: once the pair of sockets is full, no report waits."""
    report = f"POST {REPORT} HTTP/1.1\r\nHost: a\r\nContent-Length: 4096\r\n\r\n{'x' * 4096}".encode()
    with pair(with_reports=False) as at, ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", at.port), timeout=PATIENCE_S))
            for _ in range(200)
        ]
        for client in clients:
            client.sendall(report)
        answered, _, _ = select.select(clients, [], [], PATIENCE_S)
        assert answered, "no report was answered by the process for pages"
        assert b"pages" in answered[0].recv(65536) + answered[0].recv(65536)
        assert len(answered) < len(clients), "the pair of sockets keeps none"


def test_a_silent_client_is_given_up_by_the_process_that_has_its_connection() -> None:
    """The time limits hold there too."""
    with pair() as at, at_half(at) as client:
        until(lambda: len(at.reports.open) == 1)
        until(lambda: len(at.pages.open) == 0)
        assert client.recv(65536).startswith(b"HTTP/1.1 408")


@contextmanager
def at_half(at: Pair) -> Iterator[socket.socket]:
    """A report whose headers never end."""
    with socket.create_connection(("127.0.0.1", at.port), timeout=PATIENCE_S) as client:
        client.sendall(f"POST {REPORT} HTTP/1.1\r\nX-Slow: ".encode())
        yield client
