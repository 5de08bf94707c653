"""The server: uvicorn with limits that keep one client from holding or flooding it."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from starlette.types import ASGIApp

from costguard.web import memory
from costguard.web.connections import ConnectionLimits, Connections, SparseLog, SparseWarnings, most_connections
from costguard.web.http1 import Http1, Unambiguous, refusal

_BACKLOG = 1024  # clients that the system keeps waiting to be accepted
_AT_ONCE = 32  # accepted in a row, before those that are there get their turn
_SWEEP_S = 0.5
_PAUSE_S = 0.2  # before another try, where the system has nothing to accept with
_MOST_HEAD_BYTES = 16 << 10
_TRIM_S = 5.0
_CALM = 25  # requests within that time
_THREADS = 24  # for all that waits for a database or others; pages take two of them at most (see web/sharing.py)
# A thread that makes a page keeps the interpreter this long where another wants it; Python's own is five times that.
_SWITCH_S = 0.001
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_IsShared = Callable[[str], bool]


def is_loopback(address: str) -> bool:
    """Requests of all people come from there through a proxy on this host."""
    with suppress(ValueError):
        return ip_address(address.partition("%")[0]).is_loopback
    return False


def make_server(
    app: ASGIApp,
    limits: ConnectionLimits | None = None,
    is_shared: _IsShared = is_loopback,
    forget: Callable[[], object] = lambda: None,
) -> Server:
    """Answers at the sockets that its `run` is given. `is_shared`: many people come from this address, as a proxy's.

    `forget` is called once after each time of many requests, before memory is given back.
    """
    return Server(app, limits or replace(ConnectionLimits(), most=most_connections()), is_shared, forget)


class Server(uvicorn.Server):
    """Makes room for new connections, and closes those whose client takes too long (see web/connections.py)."""

    def __init__(
        self,
        app: ASGIApp,
        limits: ConnectionLimits,
        is_shared: _IsShared = is_loopback,
        forget: Callable[[], object] = lambda: None,
    ) -> None:
        self._forget = forget
        self.sparse = SparseLog()
        self.open = Connections(limits, is_shared, self.sparse)
        logger = logging.getLogger("uvicorn.error.http1")
        logger.filters[:] = [SparseWarnings(self.sparse)]
        super().__init__(
            uvicorn.Config(
                Unambiguous(app),
                http=partial(Http1, all_connections=self.open, logger=logger),  # type: ignore[arg-type]  # a class's call
                ws="none",
                proxy_headers=False,  # web/proxies.py believes those that the settings name
                server_header=False,
                log_config=None,
                access_log=False,
                timeout_keep_alive=round(limits.idle) or 1,
                timeout_graceful_shutdown=5,
                h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
            )
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts as uvicorn itself does, but for how connections are accepted."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(3)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unhandled)
        sys.setswitchinterval(_SWITCH_S)
        memory.few_arenas()
        current_default_thread_limiter().total_tokens = _THREADS
        self._tasks = [loop.create_task(self._sweep()), loop.create_task(self._trim())]
        self.servers = [_Acceptor(listener, self._protocol, self.open, self.sparse) for listener in sockets or ()]  # type: ignore[misc]  # what uvicorn calls of a server
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Requests that are not whole will get no answer, so nothing waits for them."""
        for task in self._tasks:
            task.cancel()
        self.open.drop_waiting()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.open.sweep()

    async def _trim(self) -> None:
        """Trims memory, once after each time of many requests."""
        trimmed = before = 0
        while True:
            await asyncio.sleep(_TRIM_S)
            answered = self.server_state.total_requests
            if answered - before < _CALM and answered - trimmed >= _CALM:
                trimmed = answered
                await asyncio.to_thread(self._rest)
            before = answered

    def _rest(self) -> None:
        self._forget()
        gc.collect()  # under load it waits
        memory.give_back()

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Once a minute in full, whatever clients do to bring it about."""
        if self.sparse.is_due(str(context.get("message"))):
            loop.default_exception_handler(context)


class _Acceptor:
    """Accepts connections in place of asyncio, which goes on accepting without descriptors, with a traceback for each
    failure.

    See https://github.com/python/cpython/issues/151615.
    """

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        connections: Connections,
        sparse: SparseLog,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener, self._protocol, self._open, self._sparse = listener, protocol, connections, sparse
        self._refusal = refusal()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """uvicorn waits for the connections themselves."""

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                client, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                self._scarce(error)
                return
            self._take(client, str(peer[0]) if peer else "")

    def _take(self, client: socket.socket, address: str) -> None:
        if not self._open.make_room(address):
            with client, suppress(OSError):
                client.setblocking(False)
                client.send(self._refusal)
                client.shutdown(socket.SHUT_WR)
            return
        task = self._loop.create_task(self._open_one(client, address))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open_one(self, client: socket.socket, address: str) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, client)
        except OSError:  # it has gone already
            self._open.not_coming(address)
            client.close()

    def _scarce(self, error: OSError) -> None:
        """Another connection makes room; where none can, the listener rests for a moment rather than spin."""
        self._sparse.warn("connections_not_accepted", error=error.strerror)
        self._open.free_one()
        self._loop.remove_reader(self._listener)
        self._loop.call_later(_PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)
