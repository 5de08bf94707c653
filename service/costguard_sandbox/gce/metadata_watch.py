"""Who waits for a change of a VM's metadata is woken by it, and by the end of the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Bell:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self.is_waited_for = False

    def ring(self) -> None:
        """From whatever thread."""
        with suppress(RuntimeError):  # that server has ended, and nobody listens any more
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, seconds: float | None) -> bool:
        """Whether it rang, now or since the last time."""
        self.is_waited_for = True
        try:
            await asyncio.wait_for(self._rung.wait(), seconds)
        except TimeoutError:
            return False
        self._rung.clear()
        return True


class Bells:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listening: dict[int, set[Bell]] = {}
        self.is_closed = False

    @contextmanager
    def listening(self, vm: int) -> Iterator[Bell]:
        """Listen first and look then, or a change between the two is missed."""
        bell = Bell()
        with self._lock:
            self._listening.setdefault(vm, set()).add(bell)
        try:
            yield bell
        finally:
            with self._lock:
                self._listening[vm].discard(bell)
                if not self._listening[vm]:
                    del self._listening[vm]

    def ring(self, vm: int) -> None:
        with self._lock:
            for bell in self._listening.get(vm, ()):
                bell.ring()

    def open(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        with self._lock:
            for bells in self._listening.values():
                for bell in bells:
                    bell.ring()

    def listening_to(self, vm: int) -> int:
        """How many wait for it now."""
        with self._lock:
            return sum(bell.is_waited_for for bell in self._listening.get(vm, ()))
