"""The connections of a server: how many there may be, and which is closed to make room for another."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from costguard.sparse_log import SparseLog

_MOST = 1000
OVER = 8  # connections beyond the most, for the health check alone


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds that a client may take, and how many connections there may be. The application's time is not counted."""

    head: float = 10.0  # for the request line and the headers
    body: float = 30.0
    idle: float = 15.0  # before the first request, and between two
    write: float = 30.0  # for reading the next part of an answer
    most: int = _MOST


class Place(Enum):
    """Limits what a new connection may be used for."""

    ANY = "any request"
    HEALTH = "the health check alone"
    NONE = "nothing: it is refused"


class ClientConnection(Protocol):
    def abort(self) -> None: ...


def most_connections(descriptors: int | None = None) -> int:
    """Returns the most connections that leave descriptors for the database, logs, and the process's other files.

    `descriptors` is the most that the process may have open; by default the system is asked.
    """
    if descriptors is None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return _MOST
    spare = max(64, min(256, descriptors // 4))
    return max(OVER, min(_MOST, descriptors - spare - OVER))


class Connections:
    """All that are open. Used by the event loop's thread alone.

    Those that wait for their clients are kept in the order of their wait, so that a flood does not make each of its
    connections search through all others.
    """

    def __init__(self, limits: ConnectionLimits, sparse: SparseLog) -> None:
        self.limits, self.sparse = limits, sparse
        self.answered = 0  # requests so far
        self._open: set[ClientConnection] = set()
        self._waiting: dict[ClientConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, connection: ClientConnection, address: str) -> Place:
        """Takes in a connection, for which the one that waits longest may have to go."""
        if len(self) >= self.limits.most:
            self._close_longest(address)
        if len(self) >= self.limits.most + OVER:
            self.sparse.warn("connection_refused", why="there are too many", most=self.limits.most)
            return Place.NONE
        self._open.add(connection)
        self.waits(connection)
        return Place.ANY if len(self) <= self.limits.most else Place.HEALTH

    def waits(self, connection: ClientConnection) -> None:
        """Notes that it waits for its client from now on."""
        self.works(connection)
        if connection in self._open:
            self._waiting[connection] = None

    def works(self, connection: ClientConnection) -> None:
        """Notes that the application answers its request: it makes no room for others."""
        self._waiting.pop(connection, None)

    def closed(self, connection: ClientConnection) -> None:
        """Forgets it; more than once does no harm."""
        self.works(connection)
        self._open.discard(connection)

    def drop_waiting(self) -> None:
        """Closes those that have sent no whole request."""
        for connection in list(self._waiting):
            connection.abort()

    def _close_longest(self, address: str) -> None:
        """Closes the connection that has waited longest, if one waits, to make room for a client at `address`."""
        if (longest := next(iter(self._waiting), None)) is not None:
            self.sparse.warn("connections_closed", why="to make room for others", room_for=address)
            self.closed(longest)
            longest.abort()
