"""Pages and lists are made a few at a time, and one rendering answers all who ask for the same and may see the same.

A rendering that is shared is made for a stand-in, who has the permissions of those who ask and nothing else of theirs:
what the application never gets, it cannot show to others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from costguard.errors import StoreError
from costguard.model.access import Principal
from costguard.web import problems
from costguard.web.fair_queue import FairQueue, QueueFull
from costguard.web.get_kinds import GetKind, GetKinds
from costguard.web.memo import Memo, Memories
from costguard.web.placeholders import CSRF, Cut, any_reader, filling, stand_in
from costguard.web.tags import is_known

AT_ONCE = 2  # more would fight for the interpreter and end later
KEPT_S = 2.0  # what changes by itself, such as dollars, may be so old: the answer says of when it is
CROWDED_S = 6.0  # the same, where others wait for a turn
_PATIENCE_S = 20.0
_RETRY_S = 2
_MOST_KEPT = 200
_MOST_BYTES = 24 << 20  # kept in all
_LARGEST = 2 << 20
_MIN_ZIPPED = 1000
_LARGE = 16 << 10  # too much to compress between two other answers
# All that a rendering may depend on; what else a request brings, the application does not get.
_READ = frozenset({b"accept", b"host", b"hx-request"})
_FOR_PROGRAMS = ("/api/v1/", "/metrics")
_KEPT_OF_304 = ("etag", "cache-control")

_Headers: TypeAlias = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class _Rendering:
    status: int
    headers: _Headers
    cut: Cut
    is_html: bool
    route: object  # that made it, for those who time it

    @property
    def is_kept(self) -> bool:
        """Only what is sure to be right for others too, and not too large."""
        plain = self.is_html or not self.cut.has_holes
        return self.status == HTTPStatus.OK and plain and self.cut.size <= _LARGEST


_Make: TypeAlias = Callable[[Memo], Awaitable[_Rendering]]


@dataclass(slots=True)
class _Made:
    """Good for callers that came before it was begun, then for as long as the state is that of its beginning."""

    rendering: asyncio.Future[_Rendering]
    state: Hashable = None  # None: not begun
    begun: float = 0.0


class Latest:
    """The state of the database, read once for all who ask at a time: never one from before they asked."""

    def __init__(self, read: Callable[[], Hashable]) -> None:
        self._read = read
        self._limiter: anyio.CapacityLimiter | None = None
        self._running: asyncio.Task[Hashable] | None = None
        self._queued: asyncio.Task[Hashable] | None = None

    async def state(self) -> Hashable:
        if self._queued is None:
            self._queued = asyncio.get_running_loop().create_task(self._after(self._running))
        return await asyncio.shield(self._queued)

    async def _after(self, before: asyncio.Task[Hashable] | None) -> Hashable:
        if before is not None:
            await asyncio.wait({before})
        self._running, self._queued = self._queued, None
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
        return await anyio.to_thread.run_sync(self._read, limiter=self._limiter)


class Sharing:
    """Which answers are being made, and those that were made just now. Used by the event loop's thread alone."""

    def __init__(
        self, read_state: Callable[[], Hashable], at_once: int = AT_ONCE, patience: float = _PATIENCE_S
    ) -> None:
        self.latest = Latest(read_state)
        self.renderings = FairQueue(at_once, patience)
        self.exports = FairQueue(4, patience, most=20, most_each=4)
        self.forms = FairQueue(2, patience)
        self.memories = Memories(CROWDED_S)
        self.changes = 0  # that came in over this process
        self.patience = patience
        self._made: OrderedDict[Hashable, _Made] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    async def one(self, key: Hashable, who: str, make: _Make) -> _Rendering:
        """The rendering of this key, made no earlier than this caller allows. Raises QueueFull and StoreError."""
        made = self._made.get(key)
        if made is None or (made.state is not None and not self._is_good(made, await self._state())):
            made = self._begin(key, who, make)
        return await asyncio.shield(made.rendering)

    def _is_good(self, made: _Made, state: Hashable) -> bool:
        is_fresh = not made.rendering.done() or asyncio.get_running_loop().time() - made.begun <= self._longest
        return made.state == state and is_fresh

    def _begin(self, key: Hashable, who: str, make: _Make) -> _Made:
        """Another may have begun one meanwhile, which is as good."""
        waiting = self._made.get(key)
        if waiting is not None and waiting.state is None:
            return waiting
        loop = asyncio.get_running_loop()
        made = self._made[key] = _Made(loop.create_future())
        self._made.move_to_end(key)
        task = loop.create_task(self._make(key, made, who, make))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return made

    @property
    def _longest(self) -> float:
        return CROWDED_S if self.renderings.waiting else KEPT_S

    async def _state(self) -> Hashable:
        return (await self.latest.state(), self.changes)

    async def _make(self, key: Hashable, made: _Made, who: str, make: _Make) -> None:
        """Goes on where who asked first has gone: others wait for it too."""
        try:
            async with self.renderings.turn(who):
                made.state, made.begun = await self._state(), asyncio.get_running_loop().time()
                rendering = await make(Memo(self.memories, made.state, self._longest))
        except BaseException as error:
            self._drop(key, made)
            made.rendering.set_exception(error)
            made.rendering.exception()  # it may be that nobody waits any more
            if not isinstance(error, Exception):
                raise
            return
        made.rendering.set_result(rendering)
        if rendering.is_kept:
            self._bound()
        else:
            self._drop(key, made)
        asyncio.get_running_loop().call_later(CROWDED_S, self._forget, key, made)

    def _forget(self, key: Hashable, made: _Made) -> None:
        self._drop(key, made)
        self.memories.forget()

    def _drop(self, key: Hashable, made: _Made) -> None:
        if self._made.get(key) is made:
            del self._made[key]

    def _bound(self) -> None:
        done = [(key, made) for key, made in self._made.items() if made.rendering.done()]
        size = sum(made.rendering.result().cut.size for _, made in done)
        for key, made in done:
            if len(self._made) <= _MOST_KEPT and size <= _MOST_BYTES:
                return
            size -= made.rendering.result().cut.size
            self._drop(key, made)


class Shared:
    """The middleware, inside of authentication; without `sharing` it passes everything on."""

    def __init__(self, app: ASGIApp, sharing: Sharing | None = None) -> None:
        self._app, self._sharing, self._kind = app, sharing, GetKinds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope.get("state", {}).get("principal")
        sharing = self._sharing
        if scope["type"] != "http" or sharing is None or not isinstance(principal, Principal):
            await self._app(scope, receive, send)
            return
        if scope["method"] != "GET":
            try:
                await self._app(scope, receive, send)
            finally:
                sharing.changes += 1  # who changed something sees it in what they ask for next
            return
        try:
            match self._kind(scope, principal):
                case GetKind.CHEAP:
                    await self._app(scope, receive, send)
                case GetKind.EXPORT:
                    async with sharing.exports.turn(principal.key):
                        await self._app(scope, receive, send)
                case GetKind.FORM:
                    async with sharing.forms.turn(principal.key):
                        await self._app(scope, receive, send)
                case kind:
                    await self._answer(sharing, scope, receive, send, principal, kind)
        except QueueFull:
            await _crowded(scope)(scope, receive, send)

    async def _answer(
        self, sharing: Sharing, scope: Scope, receive: Receive, send: Send, principal: Principal, kind: GetKind
    ) -> None:
        headers = Headers(scope=scope)
        seen_by, csrf = _seen_by(scope, principal, kind), scope["state"]["csrf"]
        asked = [(name, value) for name, value in scope["headers"] if name in _READ]
        inner = {
            **scope,
            "client": None if kind is GetKind.ALIKE else scope.get("client"),
            "headers": asked,
            "state": {**scope["state"], "principal": seen_by, "csrf": CSRF if csrf and kind is GetKind.ALIKE else csrf},
        }
        key = (scope["path"], scope["query_string"], scope["scheme"], tuple(asked), seen_by)
        try:
            rendering = await sharing.one(key, principal.key, lambda memo: _rendered(self._app, inner, memo))
        except StoreError:
            async with sharing.renderings.turn(principal.key):  # the application says what is wrong
                await self._app(scope, receive, send)
            return
        if kind is GetKind.ALIKE and not rendering.is_kept:
            await self._answer(sharing, scope, receive, send, principal, GetKind.OWN)
            return
        scope["route"] = rendering.route
        await _send(rendering, headers, filling(principal, csrf), send)


def _seen_by(scope: Scope, principal: Principal, kind: GetKind) -> Principal:
    """The stand-in that the application sees in place of the caller."""
    if kind is not GetKind.ALIKE:
        return principal
    return any_reader(principal) if scope["path"].startswith(_FOR_PROGRAMS) else stand_in(principal)


async def _rendered(app: ASGIApp, scope: Scope, memo: Memo) -> _Rendering:
    scope["state"]["memo"] = memo
    status, headers, parts = 500, [], []

    async def collect(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, _nothing_more, collect)
    found = {name.lower(): value for name, value in headers}
    is_html = found.get(b"content-type", b"").startswith(b"text/html")
    cut = scope["state"].get("cut") or Cut(b"".join(parts))
    if cut.size > _LARGE:
        await run_in_threadpool(cut.pack)
    return _Rendering(status, headers, cut, is_html, scope.get("route"))


async def _nothing_more() -> Message:
    return {"type": "http.request"}  # an empty body, and no more of it: the defaults of the ASGI specification


async def _send(rendering: _Rendering, asked: Headers, values: Mapping[bytes, bytes], send: Send) -> None:
    tag = next((value.decode() for name, value in rendering.headers if name.lower() == b"etag"), "")
    headers = [(name, value) for name, value in rendering.headers if name.lower() != b"content-length"]
    if tag and is_known(tag, asked.get("if-none-match", "")):
        kept = [(name, value) for name, value in headers if name.lower().decode() in _KEPT_OF_304]
        await send({"type": "http.response.start", "status": HTTPStatus.NOT_MODIFIED, "headers": kept})
        await send({"type": "http.response.body", "body": b""})
        return
    if rendering.cut.size >= _MIN_ZIPPED and "gzip" in asked.get("accept-encoding", ""):
        body = rendering.cut.zipped(values)
        headers.append((b"content-encoding", b"gzip"))
    else:
        body = rendering.cut.filled(values)
    headers += [(b"vary", b"Accept-Encoding"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": rendering.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _crowded(scope: Scope) -> ASGIApp:
    return problems.response(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Too many answers are being made at the moment.",
        "Ask again after the seconds in Retry-After; what is done to VMs and jobs does not wait for this.",
        path=scope["path"],
        headers={"Retry-After": str(_RETRY_S)},
    )
