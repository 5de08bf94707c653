"""The synchronous and the asynchronous client behind one shape, so that one test holds both to one rule."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from costguard_client import AsyncClient, AsyncJob, Client, JobHandle
from costguard_client.calls import Call

T = TypeVar("T")
Finish = Callable[[Any], Any]


class Either:
    """A client of one of the two kinds; `finish` waits for what the asynchronous one returns."""

    def __init__(self, client: Client | AsyncClient, pauses: list[float], finish: Finish) -> None:
        self.client, self.pauses, self.finish = client, pauses, finish

    def call(self, call: Call[T]) -> T:
        return cast(T, self.finish(self.client.call(call)))

    def launch(self, **job: Any) -> JobHandle | AsyncJob:
        return cast("JobHandle | AsyncJob", self.finish(self.client.launch(**job)))

    def all(self, items: Any) -> list[Any]:
        return list(items) if isinstance(self.client, Client) else cast("list[Any]", self.finish(_all(items)))


@contextmanager
def clients(kind: str, url: str, token: str = "", **options: Any) -> Iterator[Either]:
    """Makes both clients. Pauses are noted, and take no time."""
    pauses: list[float] = []
    if kind == "sync":
        with Client(url, token, environ={}, pause=pauses.append, **options) as client:
            yield Either(client, pauses, lambda result: result)
        return

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    # In a thread of its own: a browser of other tests leaves a running event loop in this one.
    with ThreadPoolExecutor(1) as thread, contextlib.ExitStack() as ends:
        runner = thread.submit(ends.enter_context, asyncio.Runner()).result()

        def finish(result: Awaitable[T]) -> T:
            async def until_done() -> T:
                return await result

            return thread.submit(lambda: runner.run(until_done())).result()

        other = AsyncClient(url, token, environ={}, pause=pause, **options)
        yield Either(other, pauses, finish)
        finish(other.close())
        thread.submit(ends.close).result()


async def _all(items: Any) -> list[Any]:
    return [item async for item in items]
