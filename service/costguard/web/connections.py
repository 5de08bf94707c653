"""Limits on connections: how long each may take, and which is closed to make room."""

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
        with self._lock:
            self._counts[event] += 1
            count = self._due(event)
        if count:
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
        return record.levelno >= logging.ERROR or self._sparse.is_due(str(record.msg)) > 0


_MOST = 1000
_SHARE = 4  # an address may hold one in so many of all connections
_AT_ONCE = 16  # how many make room together
_GRACE = 1.0  # seconds; what has come so lately is on its way, and goes only where nothing else is left
OVER = 8  # connections beyond the most, for the health check alone


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds that a client may take, and how many connections there may be. The application's time is not counted."""

    head: float = 10.0  # for the request line and the headers
    body: float = 30.0
    idle: float = 15.0  # before the first request, and between two
    write: float = 30.0  # for reading the next part of an answer
    over: float = 2.0  # for everything, on the connections beyond the most
    most: int = _MOST


class ConnectionPhase(Enum):
    IDLE = "idle"  # nothing of a request has come
    HEAD = "half-sent headers"
    BODY = "half-sent body"
    BUSY = "busy"  # the request is whole, and its answer is not
    UNREAD = "unread answer"  # the client does not read the response


class ClientConnection(Protocol):
    @property
    def address(self) -> str: ...
    @property
    def phase(self) -> ConnectionPhase: ...
    @property
    def since(self) -> float: ...  # when the phase began
    @property
    def is_over(self) -> bool: ...  # beyond the most: answers the health check alone

    def expire(self, phase: ConnectionPhase) -> None:
        """Closes it, with an answer where one can still be given."""
        ...

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


_Line = dict[ClientConnection, None]  # in the order in which they began to wait


class Connections:
    """All that are open. Used by the event loop's thread alone.

    `is_shared`: many people connect from this address, such as a proxy's, so it has no share. Those that wait for their
    clients are kept in order, so that a flood does not make each of its connections search through all others.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        is_shared: Callable[[str], bool],
        sparse: SparseLog,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits, self._sparse, self.now = limits, sparse, monotonic
        self._is_shared = lru_cache(maxsize=_MOST)(is_shared)
        self._open: dict[ClientConnection, str] = {}
        self._waiting: _Line = {}
        self._waiting_of: dict[str, _Line] = {}  # the same, by source
        self._of: Counter[str] = Counter()
        self._coming: Counter[str] = Counter()  # accepted, and not open yet

    def __len__(self) -> int:
        return len(self._open) + self._coming.total()

    def make_room(self, address: str) -> bool:
        """Says whether to accept one more from this address; too many close those that wait longest."""
        source = _source(address)
        share = max(1, self.limits.most // _SHARE)
        if not self._is_shared(address) and self._of[source] + self._coming[source] >= share:
            if not self._close_waiting(1, source):
                self._sparse.warn("connection_refused", why="its address has its share", address=address)
                return False
        elif len(self) >= self.limits.most:
            self._close_waiting(_AT_ONCE, at_least=_GRACE)
        if len(self) >= self.limits.most + OVER and not self._close_waiting(_AT_ONCE):
            self._sparse.warn("connection_refused", why="there are too many", most=self.limits.most)
            return False
        self._coming[source] += 1
        return True

    def opened(self, connection: ClientConnection) -> bool:
        """Says whether it is beyond the most, so that only the health check may use it."""
        source = _source(connection.address)
        self.not_coming(connection.address)
        self._open[connection] = source
        self._of[source] += 1
        self.changed(connection)
        return len(self) > self.limits.most

    def changed(self, connection: ClientConnection) -> None:
        """It is in another phase, or has just been opened."""
        source = self._open.get(connection)
        if source is None:
            return
        self._leave(connection, source)
        if connection.phase is not ConnectionPhase.BUSY:
            self._waiting[connection] = self._waiting_of.setdefault(source, {})[connection] = None

    def not_coming(self, address: str) -> None:
        """Notes that an accepted connection has gone before it was open, or is open now."""
        source = _source(address)
        if self._coming[source]:
            self._coming[source] -= 1
        if not self._coming[source]:
            del self._coming[source]

    def closed(self, connection: ClientConnection) -> None:
        source = self._open.pop(connection, None)
        if source is None:
            return
        self._leave(connection, source)
        self._of[source] -= 1
        if not self._of[source]:
            del self._of[source]

    def sweep(self) -> None:
        """Closes those that have taken longer than they may."""
        for connection in list(self._open):
            phase = connection.phase
            if self.now() - connection.since > self._longest(connection, phase):
                if phase is not ConnectionPhase.IDLE:
                    self._sparse.warn("connections_closed", why=phase.value, address=connection.address)
                connection.expire(phase)
        self._sparse.flush()

    def drop_waiting(self) -> None:
        """Closes those that have sent no whole request."""
        for connection in list(self._open):
            if connection.phase in (ConnectionPhase.IDLE, ConnectionPhase.HEAD, ConnectionPhase.BODY):
                connection.abort()

    def free_one(self) -> bool:
        """Closes the one that waits longest; False where all are busy."""
        return self._close_waiting(1) > 0

    def _longest(self, connection: ClientConnection, phase: ConnectionPhase) -> float:
        limits = self.limits
        longest = {
            ConnectionPhase.IDLE: limits.idle,
            ConnectionPhase.HEAD: limits.head,
            ConnectionPhase.BODY: limits.body,
            ConnectionPhase.UNREAD: limits.write,
            ConnectionPhase.BUSY: float("inf"),
        }[phase]
        return min(longest, limits.over) if connection.is_over and phase is not ConnectionPhase.BUSY else longest

    def _leave(self, connection: ClientConnection, source: str) -> None:
        self._waiting.pop(connection, None)
        line = self._waiting_of.get(source, {})
        line.pop(connection, None)
        if not line:
            self._waiting_of.pop(source, None)

    def _close_waiting(self, count: int, source: str | None = None, at_least: float = 0.0) -> int:
        """Closes those that wait longest, for `at_least` seconds. How many."""
        now, closed = self.now(), 0
        while closed < count and (longest := self._longest_waiting(source)) and now - longest.since >= at_least:
            longest.abort()
            self.closed(longest)
            closed += 1
            self._sparse.warn("connections_closed", why="to make room for others", address=longest.address)
        return closed

    def _longest_waiting(self, source: str | None) -> ClientConnection | None:
        """The first in line. A phase that changed without a word is seen only when it is asked for."""
        while line := self._waiting if source is None else self._waiting_of.get(source):
            first = next(iter(line))
            if first.phase is ConnectionPhase.BUSY:
                self.changed(first)
            elif next(iter(line), None) is first:
                return first
        return None


def _source(address: str) -> str:
    """The address; of IPv6 the first 64 bits, which is what one subscriber has."""
    if ":" not in address:
        return address
    try:
        return ipaddress.IPv6Address(address.partition("%")[0]).packed[:8].hex()
    except ValueError:
        return address
