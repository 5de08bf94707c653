"""A fair queue: so many responses at once, and callers take turns."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class QueueFull(Exception):
    """No turn came within the time that a caller may wait, or too many wait already."""


class FairQueue:
    """`at_once` at a time; others wait, each person's in their order, and people take turns.

    Used by the event loop's thread alone.
    """

    def __init__(self, at_once: int, patience: float, most: int = 400, most_each: int = 40) -> None:
        self._free, self.patience, self._most, self._most_each = at_once, patience, most, most_each
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._count = 0

    @property
    def waiting(self) -> int:
        return self._count

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Raises QueueFull."""
        if self._free and not self._count:
            self._free -= 1
        else:
            await self._wait(who)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, who: str) -> None:
        line = self._waiting.get(who, deque())
        if self._count >= self._most or len(line) >= self._most_each:
            raise QueueFull
        self._waiting[who] = line
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        self._count += 1
        try:
            async with asyncio.timeout(self.patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._next()  # it came at the very moment
            else:
                self._forget(who, turn)
            if isinstance(error, TimeoutError):
                raise QueueFull from None
            raise

    def _next(self) -> None:
        while self._waiting:
            who, line = self._waiting.popitem(last=False)
            turn = line.popleft()
            self._count -= 1
            if line:
                self._waiting[who] = line  # behind everybody else
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, who: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting.get(who)
        if line is None or turn not in line:
            return
        line.remove(turn)
        self._count -= 1
        if not line:
            del self._waiting[who]
