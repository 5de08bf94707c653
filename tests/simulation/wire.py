"""Requests to the simulated world within one process: no sockets, and time that a slow answer takes is virtual."""

from __future__ import annotations

import asyncio
import heapq
import http.client
import io
import urllib.request
import urllib.response
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import orjson
import requests
import urllib3
from requests.adapters import BaseAdapter

from costguard.daemon import looking
from costguard.spend.loose import asking
from costguard_sandbox.server import create_app
from costguard_sandbox.world import World

URL = "http://sandbox.test"


class Dropped(Exception):
    """The connection broke without an answer."""


class Late(Exception):
    """The answer did not come in the time that the client allowed. What was asked for may still happen."""


@dataclass(slots=True)
class Answer:
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop as the guard asked for it, whether or not Google ever had it. `vm_id` is the VM's number.

    `by` is what was asked: `stop` of the VM itself, `stopInstances` of its group, or `:stop` of Workbench, which takes
    no request ids.
    """

    at: datetime
    vm_id: str
    request_id: str
    by: str = "stop"


class _Connection:
    """The sandbox's view of the server's side of one request; it can break it."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.transport = self
        self.is_broken = False
        self.answer = Answer()

    def abort(self) -> None:
        self.is_broken = True

    async def receive(self) -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.answer.status = message["status"]
            self.answer.headers = [
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]
            ]
        else:
            self.answer.body += message.get("body", b"")


class _Timers:
    """The part of an event loop that `asyncio.sleep` needs. Nothing runs by itself."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, asyncio.Handle]] = []
        self._count = 0

    def get_debug(self) -> bool:
        return False

    def time(self) -> float:
        return 0.0

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast("asyncio.AbstractEventLoop", self))

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        return self._handle(callback, args, context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = self._handle(callback, args, context)
        self._count += 1
        heapq.heappush(self._due, (delay, self._count, handle))
        return handle

    def _handle(self, callback: Callable[..., object], args: tuple[Any, ...], context: Any) -> asyncio.Handle:
        return asyncio.Handle(callback, args, cast("asyncio.AbstractEventLoop", self), context)

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        raise AssertionError(context)

    def next(self) -> tuple[float, asyncio.Handle] | None:
        """The next timer that was not cancelled, taken off."""
        while self._due:
            delay, _, handle = heapq.heappop(self._due)
            if not handle.cancelled():
                return delay, handle
        return None


class Wire:
    """Carries requests to one world. `step` is called before each request and after its answer: a process may end.

    `move` lets virtual time pass while a client waits.
    """

    def __init__(self, world: World, move: Callable[[timedelta], None]) -> None:
        self._world = world
        self._app = create_app(world)
        self._move = move
        self.step: Callable[[str], None] = lambda _where: None
        self.looked: Callable[[str], object] = lambda _path: None  # called with the path of each GET, before its answer
        self.reworded: Callable[[str, bytearray], bytearray] = lambda _path, body: body  # what each GET is answered
        self.calls: Counter[str] = Counter()
        self.stops: list[Stop] = []

    def exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        """Raises Dropped and Late."""
        parts = urlsplit(url)
        name = f"{method} {parts.path.rsplit('/', 1)[-1] if method != 'GET' else ''}".strip()
        self.step(f"before {name}")
        self.calls[name] += 1
        if method == "POST":
            self.stops += self._stops(parts.path, parse_qs(parts.query).get("requestId", [""])[0], body)
        if method == "GET":
            self.looked(parts.path)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": parts.scheme,
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(b"host", parts.netloc.encode())]
            + [(key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": (parts.hostname, 80),
        }
        connection = _Connection(body)
        work = self._app(scope, connection.receive, connection.send)
        self._drive(work, _Timers(), timeout_s)
        self.step(f"after {name}")
        if connection.is_broken:
            raise Dropped(name)
        if method == "GET":
            connection.answer.body = self.reworded(parts.path, connection.answer.body)
        return connection.answer

    def _stops(self, path: str, request_id: str, body: bytes) -> Iterator[Stop]:
        """The stops that a request asks for, of VMs by their number."""
        world, parts = self._world, path.split("/")
        if parts[-1] == "stop":
            yield Stop(world.now, parts[-2], request_id)
        elif parts[-1] == "stopInstances":
            for url in orjson.loads(body)["instances"]:
                _, zone, _, name = url.split("/")[-4:]
                vm = world.instance(parts[parts.index("projects") + 1], name, zone)
                yield Stop(world.now, str(vm.id), request_id, "stopInstances")
        elif parts[1] == "v2" and parts[-1].endswith(":stop"):
            notebook = world.workbench.find(parts[3], parts[5], parts[-1].removesuffix(":stop"))
            yield Stop(world.now, str(notebook.vm.id), request_id, ":stop")

    def _drive(self, work: Coroutine[Any, Any, None], timers: _Timers, patience_s: float) -> None:
        while not self._goes_on(work, timers):
            timer = timers.next()
            assert timer is not None, "the sandbox waits for something that is no timer"
            delay_s, handle = timer
            if delay_s < patience_s:
                patience_s -= delay_s
                self._move(timedelta(seconds=delay_s))
                handle._run()
                continue
            # The client gives up; the server does what it was asked all the same.
            after = self._world.now + timedelta(seconds=delay_s)
            self._world.at(after, partial(self._finish, work, timers, handle))
            self._move(timedelta(seconds=patience_s))
            raise Late

    def _finish(self, work: Coroutine[Any, Any, None], timers: _Timers, handle: asyncio.Handle) -> None:
        handle._run()
        while not self._goes_on(work, timers):
            timer = timers.next()
            assert timer is not None
            timer[1]._run()

    @staticmethod
    def _goes_on(work: Coroutine[Any, Any, None], timers: _Timers) -> bool:
        """Says whether it came to its end before it had to wait."""
        asyncio._set_running_loop(cast("asyncio.AbstractEventLoop", timers))
        try:
            while True:
                waits_for = work.send(None)
                if waits_for is not None:
                    return False
        except StopIteration:
            return True
        finally:
            asyncio._set_running_loop(None)


class RequestsAdapter(BaseAdapter):
    """An adapter for requests, and so for Google's own client."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def send(  # type: ignore[override]
        self, request: requests.PreparedRequest, stream: bool = False, timeout: Any = None, **_: Any
    ) -> requests.Response:
        body = request.body or b""
        raw_body = body.encode() if isinstance(body, str) else bytes(body)
        timeout_s = float(timeout[-1] if isinstance(timeout, tuple) else timeout or 60)
        try:
            answer = self._wire.exchange(
                str(request.method), str(request.url), dict(request.headers), raw_body, timeout_s
            )
        except Late as late:
            raise requests.ReadTimeout(f"Read timed out. (read timeout={timeout_s})", request=request) from late
        except Dropped as dropped:
            broken = http.client.RemoteDisconnected("Remote end closed connection without response")
            reason = urllib3.exceptions.ProtocolError("Connection aborted.", broken)
            raise requests.ConnectionError(reason, request=request) from dropped
        raw = urllib3.HTTPResponse(
            body=io.BytesIO(answer.body), headers=dict(answer.headers), status=answer.status, preload_content=False
        )
        response = requests.Response()
        response.status_code = answer.status
        response.headers = requests.structures.CaseInsensitiveDict(answer.headers)
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
        response.raw = raw
        response.url = str(request.url)
        response.request = request
        if not stream:
            response.content  # noqa: B018  it is read here, as requests' own session does
        return response

    def close(self) -> None:
        pass


class _UrllibHandler(urllib.request.HTTPHandler):
    """A handler for urllib, by which Slack's SDK calls."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def http_open(self, request: urllib.request.Request) -> Any:
        data = request.data if isinstance(request.data, bytes) else b""
        headers = {**request.unredirected_hdrs, **request.headers}
        headers.pop("Host", None)
        try:
            answer = self._wire.exchange(
                request.get_method(), request.full_url, headers, data, float(request.timeout or 60)
            )
        except Late as late:
            raise TimeoutError("timed out") from late
        except Dropped as dropped:
            raise http.client.RemoteDisconnected("Remote end closed connection without response") from dropped
        message = http.client.HTTPMessage()
        for key, value in answer.headers:
            message[key] = value
        response = urllib.response.addinfourl(io.BytesIO(bytes(answer.body)), message, request.full_url, answer.status)
        response.msg = http.client.responses.get(answer.status, "")  # type: ignore[attr-defined]
        return response


def _inline(_pool: ThreadPoolExecutor, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(work(*given, **named))
    except BaseException as error:
        future.set_exception(error)
    return future


@contextmanager
def one_thread(wire: Wire) -> Any:
    """Makes urllib, within the block, call over the wire, and thread pools, looks and questions about
    loose things work at once, in one order: a thread would move the clock and draw pauses whenever it came to run.
    """
    opener = urllib.request.build_opener(_UrllibHandler(wire))
    before = urllib.request._opener, ThreadPoolExecutor.submit  # type: ignore[attr-defined]
    urllib.request.install_opener(opener)
    ThreadPoolExecutor.submit = _inline  # type: ignore[method-assign, assignment]
    in_threads = looking._in_thread, asking._in_thread
    looking._in_thread = lambda project, run: run()
    asking._in_thread = lambda name, run: run()
    try:
        yield
    finally:
        looking._in_thread, asking._in_thread = in_threads
        urllib.request._opener, ThreadPoolExecutor.submit = before  # type: ignore[attr-defined, method-assign]
