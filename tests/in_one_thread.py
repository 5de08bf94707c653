"""A client for tests that ask an application thousands of times: all of it runs in one thread, next to the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import anyio.to_thread
import httpx2
import pytest
from starlette.types import ASGIApp


class OneThread:
    """Starlette's TestClient hands each request to other threads and back some fifteen times, which costs more
    processor time than a short request itself.

    The thread is not the test's own: Playwright keeps a loop running there, from its first test to its worker's end.
    """

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread = loop, ThreadPoolExecutor(1)
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://testserver")

    def request(self, method: str, url: str, **given: Any) -> httpx2.Response:
        request = self._client.request(method, url, **given)
        return self._thread.submit(self._loop.run_until_complete, request).result()

    def close(self) -> None:
        self._thread.submit(self._loop.run_until_complete, self._client.aclose()).result()
        self._thread.shutdown()


@contextmanager
def in_one_thread(app: ASGIApp) -> Iterator[OneThread]:
    """While it is open, Starlette runs routes that are no coroutines at once, without its pool of threads."""

    async def run_here(function: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        return function(*arguments)

    with closing(asyncio.new_event_loop()) as loop, pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio.to_thread, "run_sync", run_here)
        with closing(OneThread(app, loop)) as client:
            yield client
