"""Rendering of responses: a fair queue that bounds how many run at once, and a cache of recent ones."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope

from costguard.web.memo import Memo, Memories
from costguard.web.placeholders import SharedText

AT_ONCE = 2  # more would fight for the interpreter and end later
KEPT_S = 2.0  # what changes by itself, such as dollars, may be so old: the page says of when it is
CROWDED_S = 6.0  # the same, where others wait for a turn
_QUESTIONS = 4  # quotes and launches: some wait for buckets, and others use a core
_PATIENCE_S = 20.0
_MOST_KEPT = 200
_MOST_BYTES = 24 << 20  # kept in all
_LARGEST = 2 << 20
_LARGE = 16 << 10  # too much to compress between two other answers


class QueueFull(Exception):
    """The caller waited too long for its turn, or the queue is full."""


@dataclass(slots=True, weakref_slot=True)
class _Person:
    turns: asyncio.Semaphore
    waiting: int = 0  # requests


class FairQueue:
    """`at_once` at a time, `at_once_each` of one person; others wait, each in their order, and people take turns.

    No person has more in the common line than they may run at once; their others wait in a line of their own.
    """

    def __init__(
        self, at_once: int, patience: float, most: int = 400, most_each: int = 40, at_once_each: int | None = None
    ) -> None:
        self.patience, self._most, self._most_each = patience, most, most_each
        self._turns, self._at_once_each = asyncio.Semaphore(at_once), at_once_each or at_once
        self._people: WeakValueDictionary[str, _Person] = WeakValueDictionary()  # held by turns that wait or run
        self.waiting = 0

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Raises QueueFull."""
        person = self._people.get(who) or _Person(asyncio.Semaphore(self._at_once_each))
        if self.waiting >= self._most or person.waiting >= self._most_each:
            raise QueueFull
        self._people[who] = person
        async with AsyncExitStack() as held:
            self.waiting += 1
            person.waiting += 1
            try:
                async with asyncio.timeout(self.patience):
                    await held.enter_async_context(person.turns)
                    await held.enter_async_context(self._turns)
            except TimeoutError:
                raise QueueFull from None
            finally:
                self.waiting -= 1
                person.waiting -= 1
            yield


class RouteTemplate(NamedTuple):
    path: str | None  # its template; None: there is no such path


@dataclass(frozen=True, slots=True)
class Rendering:
    status: int
    headers: list[tuple[bytes, bytes]]
    shared_text: SharedText
    is_html: bool
    route: RouteTemplate  # that made it, for those who time it

    @property
    def is_kept(self) -> bool:
        """Says whether others may get it: a success without personal parts, and not too large."""
        plain = self.is_html or not self.shared_text.has_placeholders
        return self.status == HTTPStatus.OK and plain and self.shared_text.size <= _LARGEST


async def rendered(app: ASGIApp, scope: Scope, memo: Memo) -> Rendering:
    """The application's answer, compressed already where it has as many bytes."""
    scope["state"]["memo"] = memo
    status, headers, parts = 500, [], []

    async def collect(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, empty_request(), collect)
    by_name = {name.lower(): value for name, value in headers}
    is_html = by_name.get(b"content-type", b"").startswith(b"text/html")
    shared_text = scope["state"].get("shared_text") or SharedText(b"".join(parts))
    if shared_text.size >= _LARGE:
        await run_in_threadpool(shared_text.pack)
    return Rendering(status, headers, shared_text, is_html, RouteTemplate(getattr(scope.get("route"), "path", None)))


def empty_request() -> Receive:
    """An empty body, and then nothing for ever: the first caller may leave, and the rendering goes on for others.

    A response that is streamed waits in a loop for its reader to leave: an answer each time would never let go of the
    event loop.
    """
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            await asyncio.get_running_loop().create_future()
        is_read = True
        return {"type": "http.request"}  # the defaults of the ASGI specification: no body, and no more of it

    return receive


_Make: TypeAlias = Callable[[Memo], Awaitable[Rendering]]


@dataclass(slots=True)
class _Made:
    """Good for callers that came before it was begun, then for as long as the state is that of its beginning."""

    rendering: asyncio.Future[Rendering]
    state: Hashable = None  # None: not begun
    begun: float = 0.0


class Latest:
    """The state of the database, read once for all callers at a time, and never earlier than their requests."""

    def __init__(self, read: Callable[[], Hashable]) -> None:
        self._read, self._limiter = read, anyio.CapacityLimiter(1)
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
        return await anyio.to_thread.run_sync(self._read, limiter=self._limiter)


class Sharing:
    """The renderings under way, and those made just now. Used by the event loop's thread alone."""

    def __init__(
        self, read_state: Callable[[], Hashable], at_once: int = AT_ONCE, patience: float = _PATIENCE_S
    ) -> None:
        self.latest = Latest(read_state)
        self.renderings = FairQueue(at_once, patience)
        self.exports = FairQueue(4, patience, most=20, most_each=4, at_once_each=1)
        self.forms = FairQueue(2, patience)
        self.questions = FairQueue(_QUESTIONS, patience, at_once_each=1)
        self.searches = FairQueue(2, patience, at_once_each=1)  # in stored output, piece by piece from a bucket
        self.archives = FairQueue(2, patience, at_once_each=1)  # that are unpacked to be checked
        self.memories = Memories(CROWDED_S)
        self.changes = 0  # that came in over this process
        self.patience = patience
        self._made: OrderedDict[Hashable, _Made] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    async def one(self, key: Hashable, who: str, make: _Make) -> Rendering:
        """The rendering of this key, made no earlier than this caller allows. Raises QueueFull and StoreError."""
        made = self._made.get(key)
        if made is None or (made.state is not None and not self._is_good(made, await self._state())):
            made = self._begin(key, who, make)
        return await asyncio.shield(made.rendering)

    def _is_good(self, made: _Made, state: Hashable) -> bool:
        is_fresh = not made.rendering.done() or asyncio.get_running_loop().time() - made.begun <= self._longest
        return made.state == state and is_fresh

    def _begin(self, key: Hashable, who: str, make: _Make) -> _Made:
        """Starts one, unless another caller has done so meanwhile."""
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
        """Goes on when the first caller has disconnected: others wait for it too."""
        try:
            async with self.renderings.turn(who):
                made.state, made.begun = await self._state(), asyncio.get_running_loop().time()
                rendering = await make(Memo(self.memories, made.state, self._longest))
        except BaseException as error:
            self._drop(key, made)
            made.rendering.set_exception(error)
            made.rendering.exception()  # perhaps no caller waits any more
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
        size = sum(made.rendering.result().shared_text.size for _, made in done)
        for key, made in done:
            if len(self._made) <= _MOST_KEPT and size <= _MOST_BYTES:
                return
            size -= made.rendering.result().shared_text.size
            self._drop(key, made)
