"""Connections of agents' reports go to a process of their own, so that pages and reports do not delay each other.

The processes that serve pages accept all connections. One that brings a report goes on to the process for reports, as
an open file over a pair of sockets (unix(7), SCM_RIGHTS) with what was read of it. A proxy may send anything over the
same connection: after a request for a page the process for reports closes it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from starlette.types import Scope

_PATH = "/api/v1/attempts/"  # of agents alone
_BEGINS = b"POST " + _PATH.encode()
_MOST_BYTES = 128 << 10  # that go along, of one message; a connection with more is served where it is
_AT_ONCE = 32

_TakeIn = Callable[[bytes], asyncio.Protocol]


class Giving:
    """The share of a process that serves pages. Where the other process does not keep up, it answers reports too."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)

    def gives_away(self, transport: asyncio.Transport, data: bytes) -> bool:
        if not data.startswith(_BEGINS) or len(data) > _MOST_BYTES:
            return False
        try:
            socket.send_fds(self._end, [data], [transport.get_extra_info("socket").fileno()])
        except OSError:  # it has as many waiting as the system keeps, or has just ended
            return False
        return True


class Taking:
    """The share of the process that answers reports: what it is given, and nothing else for long."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._opening: set[asyncio.Task[None]] = set()
        end.setblocking(False)

    def is_ours(self, scope: Scope) -> bool:
        return bool(scope["path"].startswith(_PATH))

    async def run(self, take_in: _TakeIn) -> None:
        """Takes in connections until it is cancelled."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._end, self._receive, take_in)
        try:
            await loop.create_future()
        finally:
            loop.remove_reader(self._end)

    def _receive(self, take_in: _TakeIn) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, files, _flags, _address = socket.recv_fds(self._end, _MOST_BYTES, 1)
            except OSError:  # there are no more now, or too many files are open
                return
            for number in files:
                task = asyncio.get_running_loop().create_task(_open(socket.socket(fileno=number), data, take_in))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)


async def _open(client: socket.socket, data: bytes, take_in: _TakeIn) -> None:
    client.setblocking(False)
    with suppress(OSError):  # it has gone already
        await asyncio.get_running_loop().connect_accepted_socket(lambda: take_in(data), client)
        return
    client.close()
