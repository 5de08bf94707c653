"""Pages made by another process: the same answers, and what becomes of them when it ends, hangs or sends nonsense."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from math import inf
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.types import Message, Scope
from tests.authenticators import make_principal
from tests.loops import Run, loop

from costguard.errors import StoreError
from costguard.model.access import Principal, Role, Via
from costguard.web import problems
from costguard.web.frames import first_message, framed, received
from costguard.web.renderer import Readership, RemoteRenderer, render_all
from costguard.web.rendering import Sharing, empty_request
from costguard.web.sharing import SharingMiddleware

ADA, BOB = (make_principal(Role.VIEWER, f"{name}@lab.example", Via.LINK) for name in ("ada", "bob"))
HUGE = 20 << 20


class Thread:
    """A process that renders, in a thread: what it does with its socket is given. It counts how often it is killed."""

    def __init__(self, end: socket.socket, work: Callable[[socket.socket], Coroutine[Any, Any, None]]) -> None:
        self.pid, self.killed = 4242, 0
        self._end = end.dup()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[socket.socket], Coroutine[Any, Any, None]]) -> None:
        asyncio.run(work(self._end))

    def kill(self) -> None:
        self.killed += 1

    def wait(self) -> int:
        self._thread.join()
        return -9


class Site:
    """An application, rendered here or, with `work`, by another process. `/page` waits for `go_on`."""

    def __init__(self, work: Callable[[socket.socket], Coroutine[Any, Any, None]] | None = None, **given: Any) -> None:
        self.go_on, self.began = threading.Event(), threading.Event()
        self.go_on.set()
        self.seen: list[tuple[list[str], set[str]]] = []
        self.news: list[Any] = []
        self.started: list[Thread] = []
        self.end: socket.socket | None = None
        self.sharing = Sharing(lambda: 1)
        self.app = self._application()
        self.app.add_middleware(SharingMiddleware, sharing=self.sharing)
        work = work or self.render
        self.renderer = RemoteRenderer(
            lambda end: self._start(end, work), lambda: "first", lambda: "news", Readership(1, inf), **given
        )

    async def render(self, end: socket.socket) -> None:
        """Renders as the real process does."""
        self.end = end
        assert first_message(end) == "first"
        await render_all(end, self._application(), self.news.append)

    def _start(self, end: socket.socket, work: Callable[[socket.socket], Coroutine[Any, Any, None]]) -> Thread:
        self.started.append(Thread(end, work))
        return self.started[-1]

    def _application(self) -> FastAPI:
        app = FastAPI()
        problems.install(app)
        routes: dict[str, Callable[..., Any]] = {
            "/page": self._page,
            "/huge": self._huge,
            "/no": self._no,
            "/bug": self._bug,
        }
        for path, route in routes.items():
            app.add_api_route(path, route, response_class=HTMLResponse)
        return app

    def _page(self, request: Request) -> HTMLResponse:
        self.began.set()
        self.go_on.wait()
        self.seen.append((sorted(request.headers), set(request.scope["state"]) - {"memo"}))
        state = request.state
        text = f"<p>{state.principal.address}</p>{'x' * 3000}<input value='{state.csrf}'>"
        return HTMLResponse(text, headers={"ETag": 'W/"one"', "Cache-Control": "no-cache"})

    def _huge(self) -> Response:
        return Response(b"\xff\x00" * (HUGE // 2), media_type="application/octet-stream")

    def _no(self) -> None:
        raise StoreError("The database does not answer.")

    def _bug(self) -> None:
        raise ZeroDivisionError("a bug")

    async def ask(self, path: str, who: Principal = ADA, **headers: str) -> tuple[int, dict[str, str], bytes]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
            "state": {"principal": who, "csrf": f"proof of {who.address}", "authenticator": self},
        }
        await self.app(scope, empty_request(), send)
        names = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], names, b"".join(message.get("body", b"") for message in sent[1:])

    async def until_there(self) -> None:
        """The other process renders from here on."""
        self.sharing.elsewhere = self.renderer
        while not self.renderer.pid:
            await self.ask("/page")
            self.sharing.changes += 1
            await asyncio.sleep(0.001)
        self.seen.clear()


@pytest.fixture
def run() -> Iterator[Run]:
    with loop() as running:
        yield running


@pytest.mark.parametrize("headers", [{}, {"accept_encoding": "gzip"}, {"if_none_match": '"one"'}], ids=str)
def test_answer_is_the_same_as_without_another_process(run: Run, headers: dict[str, str]) -> None:
    """Status, headers and each byte, for the first and the second reader."""

    async def scenario() -> None:
        here, there = Site(), Site()
        await there.until_there()
        for who in (ADA, BOB):
            expected = await here.ask("/page", who, **headers)
            assert await there.ask("/page", who, **headers) == expected
            assert there.news  # it came from there
            status, names, body = expected
            if status == 200:
                text = gzip.decompress(body) if "content-encoding" in names else body
                assert f"proof of {who.address}".encode() in text

    run(scenario())


def test_other_process_never_gets_what_is_personal(run: Run) -> None:
    """Neither the caller's headers, nor their address or CSRF token, nor what authenticated them."""

    async def scenario() -> None:
        site = Site()
        await site.until_there()
        _status, _names, body = await site.ask("/page", ADA, cookie="session=secret", authorization="Bearer secret")
        assert b"ada@lab.example" in body
        assert site.seen == [([], {"principal", "csrf"})]
        assert "news" in site.news

    run(scenario())


def test_huge_answer_comes_whole(run: Run) -> None:
    """Twenty megabytes, many times what a socket holds."""

    async def scenario() -> None:
        site = Site()
        await site.until_there()
        status, names, body = await site.ask("/huge")
        assert (status, names["content-length"], body[-2:]) == (200, str(HUGE), b"\xff\x00")

    run(scenario())


def test_errors_are_those_of_the_application(run: Run) -> None:
    """A database that does not answer is a 503 that says so; a mistake is a 500, and the next page comes."""

    async def scenario() -> None:
        here, there = Site(), Site()
        await there.until_there()
        assert await there.ask("/no") == await here.ask("/no")
        with pytest.raises(Exception, match="a bug"):
            await there.ask("/bug")
        assert (await there.ask("/page"))[0] == 200

    run(scenario())


def test_page_under_way_is_refused_clearly_when_the_process_ends(run: Run) -> None:
    """A 503 that says when to ask again. The next one is made by the serving process meanwhile."""

    async def scenario() -> None:
        site = Site()
        await site.until_there()
        site.go_on.clear()
        site.began.clear()
        asking = asyncio.create_task(site.ask("/page"))
        while not site.began.is_set():
            await asyncio.sleep(0.001)
        assert site.end is not None
        site.end.shutdown(socket.SHUT_RDWR)
        status, names, body = await asking
        assert (status, names["retry-after"]) == (503, "2")
        assert "ended" in json.loads(body)["detail"]
        site.go_on.set()
        assert site.renderer.pid == 0
        assert (await site.ask("/page"))[0] == 200

    run(scenario())


@pytest.mark.parametrize("nonsense", [b"\x00" * 7 + b"\x04junk", b"\xff" * 8, framed("no answer"), framed(("a", 2))])
def test_process_that_sends_nonsense_is_ended(run: Run, nonsense: bytes) -> None:
    """The nonsense is not shown."""

    async def work(end: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=end)
        writer.write(framed(None) + nonsense)
        await reader.read()
        writer.close()

    async def scenario() -> None:
        site = Site(work)
        site.sharing.elsewhere = site.renderer
        assert (await site.ask("/page"))[0] == 200
        while not site.started[0].killed:
            await asyncio.sleep(0.001)
        site.sharing.changes += 1
        assert (await site.ask("/page"))[0] == 200
        assert site.renderer.pid == 0

    run(scenario())


def test_silent_process_is_ended_and_its_page_refused(run: Run) -> None:
    """It took the request, and its event loop does not turn any more."""

    async def work(end: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=end)
        writer.write(framed(None))
        await received(reader)
        await reader.read()
        writer.close()

    async def scenario() -> None:
        site = Site(work, silent_s=0.5)
        site.sharing.elsewhere = site.renderer
        assert (await site.ask("/page"))[0] == 200
        statuses = [200]
        while 503 not in statuses and not site.started[0].killed:
            site.sharing.changes += 1
            statuses.append((await site.ask("/page"))[0])
        assert site.started[0].killed
        site.sharing.changes += 1
        assert (await site.ask("/page"))[0] == 200

    run(scenario())


def test_process_is_worth_its_memory_where_many_pages_are_made() -> None:
    """Three within ten seconds begin it; a minute with fewer ends it."""
    now = 0.0
    pages = Readership(many=3, within_s=10, quiet_s=60, monotonic=lambda: now)
    readings = []
    for seconds in (0, 0, 0, 11, 61):
        now = seconds
        if seconds != 11:
            pages.count()
        readings.append((pages.is_needed, pages.is_over))
    assert readings == [(False, False), (False, False), (True, False), (False, False), (False, True)]
