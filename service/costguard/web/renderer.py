"""Renders pages in a process of its own, so that they hold up neither reports nor other requests.

The serving process keeps connections, authentication and sharing. It sends what a rendering may depend on and gets the
rendering back, over a pair of sockets. Both ends run the same code for the same user, so the messages are pickles.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import structlog
from starlette.types import ASGIApp, Scope

from costguard.errors import StoreError
from costguard.model.backoff import Backoff
from costguard.web import memory
from costguard.web.frames import framed, received
from costguard.web.memo import Memo, Memories
from costguard.web.rendering import CROWDED_S, Rendering, RenderingLost, rendered

_CARRIED = (
    "type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "root_path", "query_string", "headers",
    "client", "server",
)  # fmt: skip
_CARRIED_STATE = ("principal", "csrf")
_BEAT_S = 1.0
_SILENT_S = 20.0  # without a beat, after which it is killed
_START_S = 120.0  # the same, until its first beat
_MANY, _WITHIN_S = 20, 10.0  # so many renderings within that time make it worth its memory...
_QUIET_S = 300.0  # ...and it ends after so much time with fewer
_BUFFER = 1 << 20
_PACKED_FROM = 1000  # bytes; smaller answers are sent as they are
_BACKOFF = Backoff(timedelta(seconds=0.5), timedelta(seconds=30))  # between two starts
_STEADY_S = 60.0  # one that lived this long is replaced without delay
_CALM_BEATS, _CALM_AFTER = 5, 25  # without a rendering, after so many, memory is given back

log = structlog.get_logger(__name__)


class RenderingFailed(Exception):
    """A mistake in Costguard; the renderer's log has the traceback."""


class _Task(NamedTuple):
    number: int
    scope: dict[str, Any]
    state: Any  # of the database
    longest: float
    news: Any


class _Done(NamedTuple):
    number: int
    result: Rendering | Exception


class RendererProcess(Protocol):
    """The methods of a started process, as `subprocess.Popen` has them."""

    @property
    def pid(self) -> int: ...
    def wait(self) -> int: ...
    def kill(self) -> None: ...


class RemoteRenderer:
    """The process that renders, as the serving one sees it. Used by the event loop's thread alone.

    It is started when many pages are wanted, and ended when few have been for a while. While there is none, the serving
    process renders by itself. `first` is the first message to it, and `news` goes along with each request.
    """

    def __init__(
        self,
        spawn: Callable[[socket.socket], RendererProcess],
        first: Callable[[], Any],
        news: Callable[[], Any] = lambda: None,
        readership: Readership | None = None,
        silent_s: float = _SILENT_S,
    ) -> None:
        self._spawn, self._first, self._news, self._silent_s = spawn, first, news, silent_s
        self._readership = readership or Readership()
        self._line: _Line | None = None
        self._running: asyncio.Task[None] | None = None
        self._ends, self._not_before_s = 0, 0.0

    @property
    def pid(self) -> int:
        """0 while there is none that renders."""
        return self._line.pid if self._line is not None else 0

    async def render(self, scope: Scope, memo: Memo) -> Rendering | None:
        """Renders. None: there is no such process now. Raises RenderingLost where it ended meanwhile."""
        self._readership.count()
        if self._line is not None:
            return await self._line.ask(scope, memo, self._news())
        if self._running is None and self._readership.is_needed and time.monotonic() >= self._not_before_s:
            self._running = asyncio.get_running_loop().create_task(self._run())
            self._running.add_done_callback(self._over)
        return None

    async def _run(self) -> None:
        """Runs one process, from its start to its end."""
        began_s = time.monotonic()
        ours, theirs = socket.socketpair()
        with theirs:
            process = self._spawn(theirs)
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_BUFFER)
        line = _Line(process.pid, writer)
        try:
            writer.write(framed(self._first()))
            why = await self._listen(reader, line)
        finally:
            self._line = None
            line.lose()
            writer.close()
            process.kill()
        code = await asyncio.to_thread(process.wait)
        if not why:
            return
        self._ends = 1 if time.monotonic() - began_s > _STEADY_S else self._ends + 1
        wait_s = _BACKOFF.after(self._ends).total_seconds()
        self._not_before_s = time.monotonic() + wait_s
        log.error("renderer_ended", why=why, exit_code=code, replaced_in_s=wait_s, pages="go on")

    async def _listen(self, reader: asyncio.StreamReader, line: _Line) -> str:
        """Listens, and returns why it is over; "" where it is needed no more."""
        patience_s = _START_S
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    done = await received(reader)
                line.take(done)
            except (asyncio.IncompleteReadError, ConnectionError):
                return "it ended"
            except TimeoutError:
                return f"it said nothing for {patience_s:g} s"
            except Exception as error:  # whatever nonsense does to pickle
                return f"it sent what is no answer: {error!r}"
            if not line.is_waiting and self._readership.is_over:
                return ""
            self._line, patience_s = line, self._silent_s

    def _over(self, running: asyncio.Task[None]) -> None:
        self._running = None
        if not running.cancelled() and (error := running.exception()) is not None:
            self._not_before_s = time.monotonic() + _BACKOFF.longest.total_seconds()
            log.error("renderer_not_started", error=repr(error), pages="are made by the serving process")


class Readership:
    """Decides whether a process of its own is worth its memory: when two pages a second are rendered, and a while
    longer.
    """

    def __init__(
        self,
        many: int = _MANY,
        within_s: float = _WITHIN_S,
        quiet_s: float = _QUIET_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._within_s, self._quiet_s, self._monotonic = within_s, quiet_s, monotonic
        self._recent: deque[float] = deque(maxlen=many)
        self._needed_at_s = monotonic()

    def count(self) -> None:
        self._recent.append(self._monotonic())
        if self.is_needed:
            self._needed_at_s = self._recent[-1]

    @property
    def is_needed(self) -> bool:
        return len(self._recent) == self._recent.maxlen and self._monotonic() - self._recent[0] <= self._within_s

    @property
    def is_over(self) -> bool:
        return self._monotonic() - self._needed_at_s > self._quiet_s


class _Line:
    """A renderer, and the requests that wait for it."""

    def __init__(self, pid: int, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self._writer = writer
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Rendering]] = {}

    async def ask(self, scope: Scope, memo: Memo, news: Any) -> Rendering:
        self._number += 1
        number = self._number
        carried = {name: scope[name] for name in _CARRIED if name in scope}
        carried["state"] = {name: scope["state"].get(name) for name in _CARRIED_STATE}
        answer: asyncio.Future[Rendering] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._writer.write(framed(_Task(number, carried, memo.state, memo.longest, news)))
            return await answer
        finally:
            del self._waiting[number]

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def take(self, done: _Done | None) -> None:
        """Raises for what is no answer; None is a beat."""
        if done is None:
            return
        answer = self._waiting.get(done.number)
        if answer is None or answer.done():
            return
        if isinstance(done.result, Rendering):
            answer.set_result(done.result)
        else:
            answer.set_exception(done.result)

    def lose(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(RenderingLost())


async def render_all(
    end: socket.socket, app: ASGIApp, hear: Callable[[Any], None], forget: Callable[[], object] = lambda: None
) -> None:
    """Renders requests from the socket, until it is closed.

    `hear` takes the news, `forget` is called in quiet times.
    """
    reader, writer = await asyncio.open_unix_connection(sock=end, limit=_BUFFER)
    worker = _Worker(app, writer, forget)
    beating = asyncio.get_running_loop().create_task(worker.beat())
    try:
        while True:
            task = await received(reader)
            hear(task.news)
            worker.begin(task)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the serving process has gone, or needs it no more
    finally:
        beating.cancel()
        writer.close()


class _Worker:
    def __init__(self, app: ASGIApp, writer: asyncio.StreamWriter, forget: Callable[[], object]) -> None:
        self._app, self._writer, self._forget = app, writer, forget
        self._memories = Memories(CROWDED_S)
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    def begin(self, task: _Task) -> None:
        self._count += 1
        running = asyncio.get_running_loop().create_task(self._one(task))
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    async def _one(self, task: _Task) -> None:
        result: Rendering | Exception
        try:
            memo = Memo(self._memories, task.state, task.longest)
            result = await rendered(self._app, task.scope, memo, _PACKED_FROM)
        except StoreError as error:
            result = error
        except Exception as error:
            log.exception("rendering_failed", path=task.scope["path"])
            result = RenderingFailed(repr(error))
        self._writer.write(framed(_Done(task.number, result)))

    async def beat(self) -> None:
        """Says that the event loop turns, and gives memory back after each time of many renderings."""
        calm = before = rested = 0
        while True:
            self._writer.write(framed(None))
            await asyncio.sleep(_BEAT_S)
            self._memories.forget()
            calm = calm + 1 if self._count == before else 0
            before = self._count
            if calm >= _CALM_BEATS and self._count - rested >= _CALM_AFTER:
                rested = self._count
                await asyncio.to_thread(self._rest)

    def _rest(self) -> None:
        self._forget()
        gc.collect()
        memory.give_back()
