"""Requests that cost far more than others: whose turn it is, and what happens when the client has gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Message
from tests.authenticators import make_principal
from tests.loops import run

from costguard.errors import Unavailable
from costguard.model.access import Principal, Role, Via
from costguard.web import problems
from costguard.web.questions import WhileWanted
from costguard.web.rendering import Sharing
from costguard.web.sharing import SharingMiddleware

ADA, BOB = (make_principal(Role.OPERATOR, f"{name}@lab.example", Via.TOKEN) for name in ("ada", "bob"))
QUOTE, EXPORT = "/api/v1/sweep-quotes", "/api/v1/focus"
_LONG = 600.0


class QuestionServer:
    """A question runs until `let_go`, and notes whether it was still wanted then."""

    def __init__(self) -> None:
        self.running, self.given_up, self.let_go = 0, 0, threading.Event()
        self._lock = threading.Lock()
        app = FastAPI()
        problems.install(app)
        app.add_api_route(QUOTE, self._quote, methods=["POST"])
        app.add_api_route(EXPORT, self._quote, methods=["GET"], response_class=StreamingResponse)
        app.add_api_route("/api/v1/tokens", lambda: "made", methods=["POST"])

        self.sharing = Sharing(lambda: 0, patience=_LONG)
        app.add_middleware(SharingMiddleware, sharing=self.sharing)
        self.app = app

    def _quote(self, go_on: WhileWanted) -> Response:
        with self._lock:
            self.running += 1
        try:
            assert self.let_go.wait(30)
            go_on()
        except Unavailable:
            self.given_up += 1
            raise
        finally:
            with self._lock:
                self.running -= 1
        return PlainTextResponse("quoted")

    def client(self, who: Principal, path: str = QUOTE) -> Client:
        return Client(self, who, path)


class Client:
    """`status` of its answer; 0 while there is none. `has_read`: its body was asked for."""

    def __init__(self, ground: QuestionServer, who: Principal, path: str) -> None:
        self.status, self.has_read = 0, False
        self._gone = asyncio.Event()
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET" if path == EXPORT else "POST",
            "path": path,
            "query_string": b"",
            "headers": [],
            "scheme": "http",
            "state": {"principal": who, "csrf": ""},
            "app": ground.app,
        }
        self.task = asyncio.create_task(ground.app(scope, self._receive, self._send))

    def leave(self) -> None:
        self._gone.set()

    async def _receive(self) -> Message:
        if not self.has_read:
            self.has_read = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.status = message.get("status", self.status)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came to that")


@pytest.mark.parametrize("path", [QUOTE, EXPORT])
def test_a_person_has_one_question_and_one_export_at_a_time(path: str) -> None:
    """The rest wait however many they ask, without their bodies being read, and others are not kept waiting."""

    async def story() -> None:
        ground = QuestionServer()
        adas = [ground.client(ADA, path) for _ in range(5)]
        await until(lambda: ground.running == 1)
        assert [client.has_read for client in adas] == [True, False, False, False, False]
        bob = ground.client(BOB, path)
        await until(lambda: ground.running == 2)
        queue = ground.sharing.questions if path == QUOTE else ground.sharing.exports
        assert (bob.has_read, queue.waiting) == (True, 4)
        other = ground.client(ADA, "/api/v1/tokens")
        await other.task
        assert other.status == 200
        ground.let_go.set()
        await asyncio.gather(*(client.task for client in adas), bob.task)
        assert {client.status for client in adas} == {200}

    run(story())


@pytest.mark.parametrize("path", [QUOTE, EXPORT])
def test_question_is_given_up_when_its_client_has_gone(path: str) -> None:
    """The work is notified, and ends at its next step."""

    async def story() -> None:
        ground = QuestionServer()
        client = ground.client(ADA, path)
        await until(lambda: ground.running == 1)
        client.leave()
        await asyncio.sleep(0.05)
        ground.let_go.set()
        await client.task
        assert (client.status, ground.given_up) == (503, 1)

    run(story())


def test_who_left_while_waiting_is_not_answered() -> None:
    """A body that ends with the connection begins no work."""

    async def story() -> None:
        ground = QuestionServer()
        first, second = ground.client(ADA), ground.client(ADA)
        await until(lambda: ground.running == 1)
        second.has_read = True  # what it has left to say is that it is gone
        second.leave()
        ground.let_go.set()
        await asyncio.gather(first.task, second.task)
        assert (first.status, second.status) == (200, 0)

    run(story())


def test_too_many_questions_are_refused_for_now() -> None:
    """A person's queue is bounded; a refusal says that it is for now."""

    async def story() -> None:
        ground = QuestionServer()
        clients = [ground.client(ADA) for _ in range(60)]
        await until(lambda: sum(client.status == 503 for client in clients) == 19)
        ground.let_go.set()
        await asyncio.gather(*(client.task for client in clients))
        assert sum(client.status == 200 for client in clients) == 41

    run(story())
