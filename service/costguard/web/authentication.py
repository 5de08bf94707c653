"""The middleware that authenticates every request; strangers get no further."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from costguard.errors import StoreError
from costguard.model.access import Credentials, Principal, Stranger
from costguard.web import problems
from costguard.web.limits import most_bytes

COOKIES = ("__Host-costguard_session", "costguard_session")  # the first where the server is reached by https
IAP_HEADER = "x-goog-iap-jwt-assertion"

# Slack signs what it sends, and knows no token; an agent has a token of its own, which opens nothing else, or
# shows what Google signed to be given it.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/slack/interactions", "/slack/commands"})
# Strangers see the verdict, and readers the reasons; a database that is slow to authenticate makes a stranger.
_TELLS_MORE = frozenset({"/readyz"})
_PATIENCE_S = 2.0
_OPEN = re.compile(r"/static/.*|/sign-in(/.*)?")
_OF_AGENTS = re.compile(
    r"POST /api/v1/(?:attempts/[^/]+/(?:events|stage)|vm-claims)|GET /api/v1/attempts/[^/]+/(?:code|rclone|py-spy)"
)

_THREADS = 4

_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class RequestAuthenticator(Protocol):
    """Finds the principal of a request's credentials."""

    def who(self, shown: Credentials) -> Principal | Stranger: ...

    def csrf(self, principal: Principal) -> str: ...

    def is_csrf(self, principal: Principal, text: str) -> bool: ...


class RateLimiter(Protocol):
    """Limits the number of requests of a caller."""

    def refusal(self, key: str) -> Mapping[str, str] | None:
        """The headers that say when to retry; None: the request may go on, and is counted."""
        ...


class AuthenticationMiddleware:
    """Refuses every request of strangers, for unknown paths too, so that strangers cannot probe which exist."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: RequestAuthenticator,
        limits: RateLimiter | None = None,
        is_https: bool = False,
    ) -> None:
        self._app, self._authenticator, self._limits, self._is_https = app, authenticator, limits, is_https
        # A pool of its own, so that authentication never waits for other requests.
        self._threads = ThreadPoolExecutor(_THREADS, "authenticator")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["authenticator"], state["principal"], state["csrf"] = self._authenticator, None, ""
        send = with_headers(send)
        headers = Headers(scope=scope)
        if (length := headers.get("content-length", "")).isdecimal() and int(length) > most_bytes(scope):
            await _too_large(scope)(scope, receive, send)
            return
        is_open = _is_open(scope)
        if scope["path"] in _TELLS_MORE:
            state["principal"] = await self._known_soon(credentials(headers, self._is_https))
        # A page to sign in at says who one is already.
        elif not is_open or scope["path"].startswith("/sign-in"):
            shown = credentials(headers, self._is_https)
            who = await asyncio.get_running_loop().run_in_executor(self._threads, self._authenticator.who, shown)
            if isinstance(who, Principal):
                state["principal"] = who
                state["csrf"] = self._authenticator.csrf(who) if who.is_ambient else ""
                if self._limits is not None and (wait := self._limits.refusal(who.key)) is not None:
                    await _too_many(scope, wait)(scope, receive, send)
                    return
            elif is_open:
                state["stranger"] = who  # the page to sign in at says why
            else:
                await _unknown(scope, headers, who)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _known_soon(self, shown: Credentials) -> Principal | None:
        """Authenticates. None: a stranger, or the database does not answer. Health checks are not limited."""
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, self._authenticator.who, shown)
        try:
            who = await asyncio.wait_for(lookup, _PATIENCE_S)
        except (StoreError, TimeoutError):
            return None
        return who if isinstance(who, Principal) else None


def bearer(headers: Mapping[str, str]) -> str:
    """The bearer token of the request; "" without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def credentials(headers: Headers, is_https: bool) -> Credentials:
    """The credentials of a request.

    Where people come by https only the first name counts: any host next to ours could set the other.
    """
    cookies = cookie_parser(headers.get("cookie", ""))
    session = next((cookies[name] for name in COOKIES[: 1 if is_https else 2] if name in cookies), "")
    return Credentials(bearer(headers), session, headers.get(IAP_HEADER, ""))


def _is_open(scope: Scope) -> bool:
    path = scope["path"]
    return (
        path in OPEN_PATHS
        or _OPEN.fullmatch(path) is not None
        or _OF_AGENTS.fullmatch(f"{scope['method']} {path}") is not None
    )


def _unknown(scope: Scope, headers: Headers, who: Stranger) -> Response:
    """Redirects browsers to the sign-in page; programs get a problem document."""
    path = scope["path"]
    here = path + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
    sign_in = f"/sign-in?next={quote(here, safe='')}"
    is_person = not path.startswith("/api/") and "text/html" in headers.get("accept", "")
    if is_person and scope["method"] == "GET" and "hx-request" not in headers:
        return Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": sign_in, "Cache-Control": "no-store"})
    return problems.response(
        HTTPStatus.UNAUTHORIZED,
        who.reason,
        who.what_next,
        path=path,
        headers={"WWW-Authenticate": 'Bearer realm="costguard"'} | ({"HX-Redirect": sign_in} if is_person else {}),
    )


def _too_many(scope: Scope, headers: Mapping[str, str]) -> Response:
    return problems.response(
        HTTPStatus.TOO_MANY_REQUESTS,
        "This token or session asks too often.",
        "Wait for the seconds in Retry-After. What is polled answers 304 to its ETag; events come as a stream.",
        path=scope["path"],
        headers=headers,
    )


def _too_large(scope: Scope) -> Response:
    """A body without a Content-Length is counted by the application while it is read."""
    detail = f"The body is larger than {most_bytes(scope) >> 10:,} KiB."
    return problems.response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail, "Send less at once.", path=scope["path"])


def with_headers(send: Send) -> Send:
    """Adds security headers: pages bring their own policy; no other response may run or be framed in a browser."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            added = [(name.encode(), value.encode()) for name, value in _HEADERS.items() if name.encode() not in given]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return sending
