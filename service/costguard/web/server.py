"""The server: uvicorn with limits that keep one client from holding or flooding it."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network, ip_network
from typing import Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from starlette.types import ASGIApp

from costguard import memory
from costguard.sparse_log import SparseLog, SparseWarnings
from costguard.web.connections import ConnectionLimits, Connections, most_connections
from costguard.web.handover import Giving, Taking
from costguard.web.http1 import HttpConnection, Unambiguous

_BACKLOG = 1024  # clients that the system keeps waiting to be accepted
_AT_ONCE = 8  # accepted in a row: as many more descriptors than connections are needed for a moment
_LOOK_S = 0.5
_MOST_HEAD_BYTES = 16 << 10
_TRIM_S = 5.0
_CALM = 25  # requests within that time
_THREADS = 24  # for all that waits for a database or others; pages take two of them at most (see web/sharing.py)
# A thread that makes a page keeps the interpreter this long where another wants it; Python's own is five times that.
_SWITCH_S = 0.001


class Server(uvicorn.Server):
    """Answers at the sockets that `run` is given, until `stop`, and on the connections that `share` takes.

    `proxies` are the networks whose word about a client's address and scheme is believed. `alive` is called often while
    requests are answered, and `forget` once after each time of many requests, before memory is given back.
    """

    def __init__(
        self,
        app: ASGIApp,
        proxies: Sequence[str] = (),
        limits: ConnectionLimits | None = None,
        share: Giving | Taking | None = None,
        alive: Callable[[], object] = lambda: None,
        forget: Callable[[], object] = lambda: None,
    ) -> None:
        self._share, self._alive, self._forget = share, alive, forget
        self._sparse = SparseLog()
        self.open = Connections(limits or replace(ConnectionLimits(), most=most_connections()), self._sparse)
        logging.getLogger("uvicorn.error").filters[:] = [SparseWarnings(self._sparse)]
        self._connection = partial(HttpConnection, connections=self.open)
        if isinstance(share, Giving):
            self._connection = partial(self._connection, gives_away=share.gives_away)
        elif isinstance(share, Taking):
            self._connection = partial(self._connection, is_ours=share.is_ours)
        config = uvicorn.Config(
            Unambiguous(app),
            http=self._connection,  # type: ignore[arg-type]  # a class's call
            ws="none",
            proxy_headers=bool(proxies),
            forwarded_allow_ips=[*proxies, *map(_mapped, proxies)],
            server_header=False,
            log_config=None,
            access_log=False,
            backlog=_AT_ONCE,
            # Our own limit comes first: uvicorn leaves a connection open whose client does not read its answer.
            timeout_keep_alive=2 * round(self.open.limits.idle) + 1,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
        )
        super().__init__(config)
        self._upkept: asyncio.Task[None]

    def stop(self) -> None:
        """May be called by any thread, and by the handler of a signal."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unhandled)
        sys.setswitchinterval(_SWITCH_S)
        memory.few_arenas()
        current_default_thread_limiter().total_tokens = _THREADS
        await super().startup(sockets)
        for listener in sockets or ():  # uvicorn has one number for this and for those accepted in a row
            listener.listen(_BACKLOG)
        self._upkept = loop.create_task(self._upkeep())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().shutdown(sockets)
        finally:
            self._upkept.cancel()

    async def _upkeep(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            group.create_task(self._trim())
            if isinstance(self._share, Taking):
                group.create_task(self._share.run(self._taken_in))

    def _taken_in(self, first: bytes) -> HttpConnection:
        return self._connection(self.config, self.server_state, self.lifespan.state, first=first)

    async def _look(self) -> None:
        """Requests that are not whole when the server ends will get no answer, so nothing waits for them."""
        while True:
            self._alive()
            await asyncio.sleep(_LOOK_S)
            self._sparse.flush()
            if self.should_exit:
                self.open.drop_waiting()

    async def _trim(self) -> None:
        """Trims memory, once after each time of many requests."""
        trimmed = before = 0
        while True:
            await asyncio.sleep(_TRIM_S)
            answered = self.open.answered
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
        if isinstance(error := context.get("exception"), OSError) and "accept" in str(context.get("message")):
            self._sparse.warn("connections_not_accepted", error=error.strerror)
        elif self._sparse.is_due(str(context.get("message"))):
            loop.default_exception_handler(context)


def _mapped(network: str) -> str:
    """The network as its addresses look where one socket takes IPv4 and IPv6 (RFC 4291, section 2.5.5.2)."""
    parsed = ip_network(network)
    return f"::ffff:{parsed.network_address}/{96 + parsed.prefixlen}" if isinstance(parsed, IPv4Network) else network
