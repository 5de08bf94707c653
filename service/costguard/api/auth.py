"""The bearer token, asked for before anything else is looked at."""

from __future__ import annotations

import hmac
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from costguard.api import problems

# Slack signs what it sends, and knows no token.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/slack/interactions", "/slack/commands"})


class TokenRequired:
    """Refuses every request without the token, unknown paths included, so that nobody learns which exist."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._is_given(Headers(scope=scope)):
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
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return (
            hmac.compare_digest(token.strip().encode("latin-1", "replace"), self._token) and scheme.lower() == "bearer"
        )
