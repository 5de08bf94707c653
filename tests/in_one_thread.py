"""A client for tests that ask an application thousands of times: all of it runs in the test's own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import anyio.to_thread
import httpx2
import pytest
from starlette.types import ASGIApp


class OneThread:
    """Starlette's TestClient hands each request to other threads and back some fifteen times, which costs more
    processor time than a short request itself."""

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://testserver")

    def request(self, method: str, url: str, **given: Any) -> httpx2.Response:
        return self._loop.run_until_complete(self._client.request(method, url, **given))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())


@contextmanager
def in_one_thread(app: ASGIApp) -> Iterator[OneThread]:
    """While it is open, Starlette runs routes that are no coroutines at once, without its pool of threads."""

    async def run_here(function: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        return function(*arguments)

    with closing(asyncio.new_event_loop()) as loop, pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio.to_thread, "run_sync", run_here)
        with closing(OneThread(app, loop)) as client:
            yield client
