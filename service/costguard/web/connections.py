"""The connections of a server: how many there may be, and which is closed to make room for another."""

from __future__ import annotations

import ipaddress
import logging
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Protocol

import structlog

log = structlog.get_logger(__name__)

EVERY_S = 60.0


class SparseLog:
    """The first of a kind is logged at once; those of the next minute are counted and logged as one line.

    Safe to use from any thread. Call `flush` now and then, so that the last count is logged too.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._logged_at: dict[str, float] = {}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def warn(self, event: str, **details: Any) -> None:
        """`event` is the kind: one of the few that the code names, never text that came from outside."""
        if count := self.is_due(event):
            log.warning(event, count=count, **details)

    def is_due(self, kind: str) -> int:
        """Counts one more; how many to log about now, 0 while it is too early."""
        with self._lock:
            self._counts[kind] += 1
            return self._due(kind)

    def flush(self) -> None:
        """Logs the counts that are a minute old."""
        with self._lock:
            due = {event: count for event in list(self._counts) if (count := self._due(event))}
        for event, count in due.items():
            log.warning(event, count=count)

    def _due(self, event: str) -> int:
        now, count = self._monotonic(), self._counts[event]
        if not count or now - self._logged_at.get(event, float("-inf")) < EVERY_S:
            return 0
        self._logged_at[event] = now
        del self._counts[event]
        return count


class SparseWarnings(logging.Filter):
    """Lets each warning of a library through once a minute; errors pass."""

    def __init__(self, sparse: SparseLog) -> None:
        super().__init__()
        self._sparse = sparse

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING or self._sparse.is_due(str(record.msg)) > 0


_MOST = 1000
_SHARE = 4  # an address may hold one in so many of all connections
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

    `is_shared`: many people connect from this address, such as a proxy's, so it has no share. Those that wait for their
    clients are kept in order, so that a flood does not make each of its connections search through all others.
    """

    def __init__(self, limits: ConnectionLimits, is_shared: Callable[[str], bool], sparse: SparseLog) -> None:
        self.limits, self.sparse = limits, sparse
        self.answered = 0  # requests so far
        self._is_shared = lru_cache(maxsize=_MOST)(is_shared)
        self._open: dict[ClientConnection, str] = {}
        self._held: Counter[str] = Counter()  # by source
        self._waiting: dict[str, dict[ClientConnection, None]] = {
            "": {}
        }  # by source; "": all, in the order of their wait

    def __len__(self) -> int:
        return len(self._open)

    def open(self, connection: ClientConnection, address: str) -> Place:
        """Takes in a connection, for which the one that waits longest may have to go."""
        source = _source(address)
        share = max(1, self.limits.most // _SHARE)
        if not self._is_shared(address) and self._held[source] >= share and not self._close_longest(source):
            self.sparse.warn("connection_refused", why="its address has its share", address=address)
            return Place.NONE
        if len(self) >= self.limits.most:
            self._close_longest("")
        if len(self) >= self.limits.most + OVER:
            self.sparse.warn("connection_refused", why="there are too many", most=self.limits.most)
            return Place.NONE
        self._open[connection] = source
        self._held[source] += 1
        self.waits(connection)
        return Place.ANY if len(self) <= self.limits.most else Place.HEALTH

    def waits(self, connection: ClientConnection) -> None:
        """Notes that it waits for its client from now on."""
        self.works(connection)
        if (source := self._open.get(connection)) is not None:
            for line in ("", source):
                self._waiting.setdefault(line, {})[connection] = None

    def works(self, connection: ClientConnection) -> None:
        """Notes that the application answers its request: it makes no room for others."""
        for line in ("", self._open.get(connection, "")):
            self._waiting.get(line, {}).pop(connection, None)

    def closed(self, connection: ClientConnection) -> None:
        """Forgets it; more than once does no harm."""
        self.works(connection)
        source = self._open.pop(connection, None)
        if source is None:
            return
        self._held[source] -= 1
        if not self._held[source]:
            del self._held[source]
            self._waiting.pop(source, None)

    def drop_waiting(self) -> None:
        """Closes those that have sent no whole request."""
        for connection in list(self._waiting[""]):
            connection.abort()

    def _close_longest(self, source: str) -> bool:
        """Closes the one that waits longest; False: none waits."""
        longest = next(iter(self._waiting.get(source, ())), None)
        if longest is None:
            return False
        self.sparse.warn("connections_closed", why="to make room for others", address=self._open[longest])
        self.closed(longest)
        longest.abort()
        return True


def _source(address: str) -> str:
    """The address; of IPv6 the first 64 bits, which is what one subscriber has."""
    if ":" not in address:
        return address or "unknown"
    try:
        return ipaddress.IPv6Address(address.partition("%")[0]).packed[:8].hex()
    except ValueError:
        return address
