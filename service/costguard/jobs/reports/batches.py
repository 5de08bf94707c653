"""Handles many small writes together: what arrives while one transaction runs shares the next."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from costguard.errors import StoreError, Unavailable

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# How long an item waits for others: a transaction costs many times what one more item in it does.
APART_S = 0.1
_MOST = 100  # in one transaction, whose turn others wait for
_MOST_BYTES = 64 << 20  # that wait
_IDLE_S = 5.0  # after which the thread ends


class _Waiting(NamedTuple, Generic[_Item, _Result]):
    item: _Item
    size: int
    result: asyncio.Future[_Result]


class _Raised(NamedTuple):
    error: BaseException


class Batches(Generic[_Item, _Result]):
    """Hands items to `handle` in the order in which they came, and gives each its result once all are handled.

    `handle` either does all of a batch, or raises and does nothing. Where it raised, each item is handled alone, so
    that one cannot spoil the others; not where the database failed, which would fail each of them.
    """

    def __init__(
        self, handle: Callable[[Sequence[_Item]], Sequence[_Result]], apart_s: float = APART_S, most: int = _MOST
    ) -> None:
        self._handle, self._apart_s, self._most = handle, apart_s, most
        self._queue: SimpleQueue[_Waiting[_Item, _Result]] = SimpleQueue()
        self._lock = threading.Lock()
        self._bytes = 0
        self._is_running = False

    async def one(self, item: _Item, size: int) -> _Result:
        """`size` in bytes counts against what may wait. Raises Unavailable, and what `handle` raised."""
        waiting = _Waiting[_Item, _Result](item, size, asyncio.get_running_loop().create_future())
        with self._lock:
            if self._bytes + size > _MOST_BYTES:
                raise Unavailable(
                    "The database is too slow for all that is reported.", "Send it again in some seconds."
                )
            self._bytes += size
            self._queue.put(waiting)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="batches", daemon=True).start()
        return await waiting.result

    def _run(self) -> None:
        pause = threading.Event()
        while (batch := self._next()) is not None:
            began = time.monotonic()
            with self._lock:
                self._bytes -= sum(waiting.size for waiting in batch)
            _hand_over(batch, self._worked(batch))
            # The first after a pause is handled at once; those that follow wait for company.
            pause.wait(max(0.0, self._apart_s - (time.monotonic() - began)))

    def _next(self) -> list[_Waiting[_Item, _Result]] | None:
        """Returns the next batch. None: there was nothing to do for a while, and the thread may end."""
        try:
            batch = [self._queue.get(timeout=_IDLE_S)]
        except Empty:
            with self._lock:
                if self._queue.empty():
                    self._is_running = False
                    return None
            batch = [self._queue.get()]
        while len(batch) < self._most:
            try:
                batch.append(self._queue.get_nowait())
            except Empty:
                break
        return batch

    def _worked(self, batch: Sequence[_Waiting[_Item, _Result]]) -> Sequence[_Result | _Raised]:
        """The result of each, or what it raised."""
        try:
            return self._handle([waiting.item for waiting in batch])
        except BaseException as error:
            if len(batch) == 1 or isinstance(error, StoreError) or not isinstance(error, Exception):
                return [_Raised(error)] * len(batch)
        return [result for waiting in batch for result in self._worked([waiting])]


def _hand_over(batch: Sequence[_Waiting[_Item, _Result]], results: Sequence[_Result | _Raised]) -> None:
    """Hands results to the event loop of each: it wakes up once for all that wait in it."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Waiting[_Item, _Result], _Result | _Raised]]] = {}
    for waiting, result in zip(batch, results, strict=True):
        loops.setdefault(waiting.result.get_loop(), []).append((waiting, result))
    for loop, given in loops.items():
        with suppress(RuntimeError):  # the loop is closed, and nothing waits in it any more
            loop.call_soon_threadsafe(_give, given)


def _give(given: Sequence[tuple[_Waiting[_Item, _Result], _Result | _Raised]]) -> None:
    for waiting, result in given:
        if waiting.result.done():  # its caller has left
            continue
        if isinstance(result, _Raised):
            waiting.result.set_exception(result.error)
        else:
            waiting.result.set_result(result)
