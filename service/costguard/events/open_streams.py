"""The open streams of events: how many there may be, and what they share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class TooManyStreams(Exception):
    """This token or session, or all together, have the most streams open."""


@dataclass
class Streams:
    """The open event streams of one process; used by its event loop alone. Times are real seconds.

    However many there are, the database is asked once in each `every` whether anything is new.
    """

    most: int = 8  # of one token or session
    most_in_all: int = 200  # well below the connections that a server may have
    every: float = 0.5
    ask_again_after: float = 30.0  # whether the listener still has the permission
    _open: Counter[str] = field(default_factory=Counter)
    _latest: int = 0
    _looked_at: float = float("-inf")
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def one_more(self, key: str) -> Iterator[None]:
        """Raises TooManyStreams."""
        if self._open[key] >= self.most or self._open.total() >= self.most_in_all:
            raise TooManyStreams
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            self._open += Counter()  # keys at zero go

    async def latest(self, look: Callable[[], Awaitable[int]]) -> int:
        """The id of the latest event, at most `every` old."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at >= self.every:
                self._latest = await look()
                self._looked_at = asyncio.get_running_loop().time()
            return self._latest
