"""Requests that cost far more than others: one at a time of each person, and given up once their client has gone."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from costguard.errors import Unavailable
from costguard.model.access import Principal
from costguard.model.ports import GoOn
from costguard.web.rendering import FairQueue

# Each looks at jobs as a launch does: at every text, in buckets, and in the ledger.
_QUESTIONS = re.compile(
    r"/api/v1/(?:quotes|sweep-quotes|schedule-quotes|jobs|schedules|sweeps|sweeps/[^/]+/resume)|/launch(?:/quote)?"
)
_LEFT = "caller_left"


def is_question(scope: Scope) -> bool:
    return scope["method"] == "POST" and _QUESTIONS.fullmatch(scope["path"]) is not None


def person(principal: Principal) -> str:
    """All tokens and sessions of a person count as one."""
    return principal.address or principal.key


async def answer_in_turn(queue: FairQueue, app: ASGIApp, scope: Scope, receive: Receive, send: Send, who: str) -> None:
    """Reads the body when its turn has come, so that those who wait hold no memory. Raises QueueFull."""
    async with queue.turn(who):
        messages = [await receive()]
        while messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False):
            messages.append(await receive())
        if messages[-1]["type"] != "http.request":
            return  # the client left while it waited
        left = scope["state"][_LEFT] = threading.Event()
        messages.reverse()

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        watching = asyncio.get_running_loop().create_task(_watch(receive, left))
        try:
            await app(scope, replay, send)
        finally:
            watching.cancel()


async def _watch(receive: Receive, left: threading.Event) -> None:
    """Watches for the server's one message after a whole body: that the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    left.set()


async def _go_on(request: Request) -> GoOn:
    left: threading.Event | None = getattr(request.state, _LEFT, None)

    def check() -> None:
        if left is not None and left.is_set():
            raise Unavailable("The client that asked has gone.", "Ask again, and wait for the answer.")

    return check


WhileWanted = Annotated[GoOn, Depends(_go_on)]
