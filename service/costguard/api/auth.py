"""The bearer token, asked for before anything else is looked at."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from costguard.web import problems

# Slack signs what it sends, and knows no token.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/slack/interactions", "/slack/commands"})

# An agent has a token of its own, which opens nothing else; whose it is the route finds out.
_OF_AGENTS = re.compile(r"/api/v1/attempts/[^/]+/events")


def bearer(headers: Mapping[str, str]) -> str:
    """The token that was sent; "" without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class TokenRequired:
    """Refuses every request without the token, unknown paths included, so that nobody learns which exist."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_open(scope) or self._is_given(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        refusal = problems.response(
            HTTPStatus.UNAUTHORIZED,
            "The bearer token is missing or wrong.",
            "Send `Authorization: Bearer TOKEN`; the command line reads it from COSTGUARD_TOKEN.",
            path=scope["path"],
            headers={"WWW-Authenticate": 'Bearer realm="costguard"'},
        )
        await refusal(scope, receive, send)

    def _is_given(self, headers: Headers) -> bool:
        return hmac.compare_digest(bearer(headers).encode("latin-1", "replace"), self._token)


def _is_open(scope: Scope) -> bool:
    path = scope["path"]
    return path in OPEN_PATHS or (scope["method"] == "POST" and _OF_AGENTS.fullmatch(path) is not None)
