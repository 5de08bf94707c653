"""HTTP methods: HEAD wherever there is a GET, and a true `Allow` where a method is refused."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class HeadAsGet:
    """Answers HEAD with the status and headers of the GET, and no body (RFC 9110, section 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        is_answered = False

        async def heads_only(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                is_answered = True

        async def until_answered() -> Message:
            # A stream goes on until its listener leaves; this one has all that it asked for.
            return {"type": "http.disconnect"} if is_answered else await receive()

        await self._app({**scope, "method": "GET"}, until_answered, heads_only)


def allowed(app: FastAPI, scope: Scope) -> str:
    """The value of `Allow` for a path: every method that some route takes there, sorted. Empty where none does."""
    methods = {method for method in _METHODS if _is_taken(app, {**scope, "method": method})}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _is_taken(app: FastAPI, scope: Scope) -> bool:
    return any(route.matches(scope)[0] is Match.FULL for route in app.routes)
