"""An event loop in a thread of its own: the thread of the tests may have one running, while a browser is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def loop() -> Iterator[Run]:
    """All that is run within comes to one event loop, as a server has one."""
    with ThreadPoolExecutor(1, "loop") as thread:
        runner = thread.submit(asyncio.Runner).result()
        try:
            yield lambda coroutine: thread.submit(runner.run, coroutine).result()
        finally:
            thread.submit(runner.close).result()


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine in a loop of its own, and returns its result."""
    with loop() as running:
        return running(coroutine)
