"""When one rendering answers many, and when it must not: over an application that counts how often it is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.authenticators import make_principal
from tests.loops import Run, loop

from costguard.errors import StoreError
from costguard.model.access import Principal, Role, Via
from costguard.web.permissions import Asker
from costguard.web.problems import HeadAsGet
from costguard.web.rendering import Sharing, empty_request
from costguard.web.sharing import SharingMiddleware

ADA, BOB = (make_principal(Role.VIEWER, f"{name}@lab.example", Via.LINK) for name in ("ada", "bob"))
ROOT = make_principal(Role.ADMIN, "root@lab.example", Via.LINK)


class SharedApp:
    """`/list` counts how often it is made, and waits for `go_on` where `is_held`. `state` is the database's."""

    def __init__(self, at_once: int = 2, patience: float = 600.0) -> None:
        self.made, self.state, self.fails = 0, 0, False
        self.most_at_once = self.at_once = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        app = FastAPI()
        app.add_api_route("/list", self._list)
        app.add_api_route("/other/{number}", self._list)
        app.add_api_route("/form", self._form)
        app.add_api_route("/jobs/{job_id}/output", self._list)
        app.add_api_route("/api/v1/jobs/{job_id}/output", self._list)
        app.add_api_route("/stream", self._stream)
        app.add_api_route("/export", self._stream, response_class=StreamingResponse)
        app.add_api_route("/list", self._change, methods=["POST"])
        self.sharing = Sharing(self._read, at_once=at_once, patience=patience)
        app.add_middleware(SharingMiddleware, sharing=self.sharing)
        app.add_middleware(HeadAsGet)
        self.app: ASGIApp = app

    async def ask(self, path: str, who: Principal = ADA, method: str = "GET", **headers: str) -> tuple[int, str]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        await self._asked(path, who, method, headers, empty_request(), send)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        self.headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], body.decode()

    async def _asked(
        self, path: str, who: Principal, method: str, headers: dict[str, str], receive: Receive, send: Send
    ) -> None:
        path, _, query = path.partition("?")
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "state": {"principal": who, "csrf": f"proof of {who.address}"},
        }
        await self.app(scope, receive, send)

    async def _list(self, request: Request) -> dict[str, object]:
        self.made += 1
        number, state = self.made, self.state
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.go_on.wait()
        finally:
            self.at_once -= 1
        return {"number": number, "state": state, "seen": sorted(request.headers), "query": request.url.query}

    async def _stream(self) -> StreamingResponse:
        self.made += 1
        return StreamingResponse(iter(["a", "b"]), media_type="text/plain")

    async def _form(self, me: Asker) -> dict[str, object]:
        self.made += 1
        return {"number": self.made, "who": me.address}

    async def _change(self) -> None:
        return None

    def _read(self) -> int:
        if self.fails:
            raise StoreError("The database does not answer.")
        return self.state


@pytest.fixture
def run() -> Iterator[Run]:
    with loop() as running:
        yield running


async def started(*requests: Coroutine[Any, Any, tuple[int, str]]) -> list[asyncio.Task[tuple[int, str]]]:
    """They have come as far as they get."""
    tasks = [asyncio.create_task(request) for request in requests]
    for _ in range(50):
        await asyncio.sleep(0.001)
    return tasks


def test_who_asks_the_same_at_once_gets_one_answer(run: Run) -> None:
    """Twenty people with the same permissions, one rendering; who may do more has one of their own."""

    async def story() -> None:
        ground = SharedApp()
        answers = await asyncio.gather(*(ground.ask("/list", who) for who in (ADA, BOB) * 10))
        assert len(set(answers)) == 1
        assert ground.made == 1
        await ground.ask("/list", ROOT)
        assert ground.made == 2

    run(story())


@pytest.mark.parametrize("path", ["/list?a=1", "/other/1"])
def test_what_is_asked_for_otherwise_is_made_otherwise(run: Run, path: str) -> None:
    """Another query, path or wish for another format is another answer."""

    async def story() -> None:
        ground = SharedApp()
        await ground.ask("/list")
        await ground.ask(path)
        await ground.ask("/list", accept="text/csv")
        assert ground.made == 3

    run(story())


def test_the_application_gets_no_header_that_could_tell_who_asks(run: Run) -> None:
    """Cookies and tokens stop at the middleware: what is shared cannot hold them."""

    async def story() -> None:
        _, body = await SharedApp().ask("/list", cookie="secret", authorization="Bearer secret", host="guard")
        assert json.loads(body)["seen"] == ["host"]

    run(story())


def test_forms_are_never_shared(run: Run) -> None:
    """Each has a key of its own: two at once are two, for the same person as well."""

    async def story() -> None:
        ground = SharedApp()
        answers = await asyncio.gather(*(ground.ask("/form", who) for who in (ADA, ADA, BOB)))
        assert len({json.loads(body)["number"] for _, body in answers}) == 3
        assert [json.loads(body)["who"] for _, body in answers] == [ADA.address, ADA.address, BOB.address]

    run(story())


def test_an_answer_begun_before_a_change_is_not_for_who_asks_after_it(run: Run) -> None:
    """A person who saw a change elsewhere never sees an older list; they wait for one that begins after they asked."""

    async def story() -> None:
        ground = SharedApp()
        ground.go_on.clear()
        before = await started(ground.ask("/list"))
        ground.state = 1
        after = await started(ground.ask("/list", BOB), ground.ask("/list"))
        ground.go_on.set()
        answers = [json.loads((await task)[1])["state"] for task in (*before, *after)]
        assert answers == [0, 1, 1]
        assert ground.made == 2

    run(story())


def test_what_was_changed_over_this_process_is_seen_at_once(run: Run) -> None:
    """A change by a POST is seen, counted by the database or not."""

    async def story() -> None:
        ground = SharedApp()
        for method in ("GET", "GET", "POST", "GET"):
            assert (await ground.ask("/list", method=method))[0] == 200
        assert ground.made == 2

    run(story())


def test_others_get_their_answer_where_the_first_leaves(run: Run) -> None:
    """A client that goes away does not take the rendering with it."""

    async def story() -> None:
        ground = SharedApp()
        ground.go_on.clear()
        first, second = await started(ground.ask("/list"), ground.ask("/list", BOB))
        first.cancel()
        await asyncio.sleep(0)
        ground.go_on.set()
        assert (await second)[0] == 200
        assert ground.made == 1

    run(story())


def test_no_more_are_made_at_once_than_may_be(run: Run) -> None:
    """Thirty different lists, two at a time."""

    async def story() -> None:
        ground = SharedApp(at_once=2)
        ground.go_on.clear()
        tasks = await started(*(ground.ask(f"/other/{number}") for number in range(30)))
        while ground.made < 2:
            await asyncio.sleep(0.001)
        ground.go_on.set()
        await asyncio.gather(*tasks)
        assert (ground.made, ground.most_at_once) == (30, 2)

    run(story())


def test_who_waits_too_long_is_told_when_to_come_again(run: Run) -> None:
    """A problem with Retry-After; what is done meanwhile, and forms, wait for no list."""

    async def story() -> None:
        ground = SharedApp(at_once=1, patience=0.05)
        ground.go_on.clear()
        (held,) = await started(ground.ask("/list"))
        status, body = await ground.ask("/other/1")
        assert (status, ground.headers["retry-after"]) == (503, "2")
        assert "Retry-After" in json.loads(body)["next"]
        assert (await ground.ask("/list", method="POST"))[0] == 200
        assert (await ground.ask("/form"))[0] == 200
        ground.go_on.set()
        assert (await held)[0] == 200

    run(story())


def test_a_database_that_does_not_answer_is_the_applications_to_tell(run: Run) -> None:
    """Nothing is shared, and the health page, which answers without a database, still does."""

    async def story() -> None:
        ground = SharedApp()
        ground.fails = True
        assert (await ground.ask("/list"))[0] == 200

    run(story())


def test_head_is_answered_from_the_same_rendering(run: Run) -> None:
    """The answer has its headers, and no body."""

    async def story() -> None:
        ground = SharedApp()
        _, body = await ground.ask("/list")
        status, nothing = await ground.ask("/list", method="HEAD")
        assert (status, nothing, ground.headers["content-length"]) == (200, "", str(len(body)))
        assert ground.made == 1

    run(story())


def test_request_of_a_shared_rendering_never_comes_again(run: Run) -> None:
    """A streamed response asks in a loop whether its reader left: it has to wait, or nothing else runs any more."""

    async def asked() -> bool:
        receive = empty_request()
        assert await receive() == {"type": "http.request"}
        again = asyncio.ensure_future(receive())
        for _ in range(50):
            await asyncio.sleep(0)
        is_waiting = not again.done()
        again.cancel()
        return is_waiting

    assert run(asked())


@pytest.mark.parametrize(("path", "made"), [("/stream", 1), ("/export", 2)])
def test_streamed_response_is_whole(run: Run, path: str, made: int) -> None:
    """Shared where the route does not say that it is streamed; each reader's own where it does, and never collected."""
    ground = SharedApp()

    async def asked() -> list[tuple[int, str]]:
        return [await ground.ask(path), await ground.ask(path, BOB)]

    assert run(asked()) == [(200, "ab")] * 2
    assert ground.made == made


@pytest.mark.parametrize("path", ["/jobs/j1/output?search=a", "/api/v1/jobs/j1/output?search=a", "/jobs/j1/output"])
def test_search_holds_no_rendering_turn(run: Run, path: str) -> None:
    """Two searches held both turns for a minute, and everyone else got a 503. A person searches once at a time."""

    async def story() -> None:
        ground = SharedApp()
        ground.go_on.clear()
        searching = await started(*(ground.ask(path, who) for who in (ADA, ADA, BOB)))
        assert (ground.at_once, ground.sharing.renderings.waiting) == (2, 0)
        status, _ = await asyncio.wait_for(ground.ask("/form"), 30)
        pages = await started(ground.ask("/list"))
        assert (status, ground.at_once, ground.sharing.renderings.waiting) == (200, 3, 0)
        ground.go_on.set()
        await asyncio.gather(*searching, *pages)

    run(story())


def test_end_of_the_output_is_shared_as_before(run: Run) -> None:
    """The agent's last report takes one look at the database, for all who follow it."""

    async def story() -> None:
        ground = SharedApp()
        answers = await asyncio.gather(*(ground.ask("/api/v1/jobs/j1/output", who) for who in (ADA, BOB)))
        assert len(set(answers)) == 1

    run(story())
