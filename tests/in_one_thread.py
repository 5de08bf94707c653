"""A client for tests that ask an application thousands of times: all of it runs in one thread, next to the test's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import anyio.to_thread
import httpx2
import pytest
from starlette.types import ASGIApp
from tests.loops import Run, loop


class OneThread:
    """Starlette's TestClient hands each request to other threads and back some fifteen times, which costs more
    processor time than a short request itself."""

    def __init__(self, app: ASGIApp, run: Run) -> None:
        self._run = run
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://testserver")

    def request(self, method: str, url: str, **given: Any) -> httpx2.Response:
        answer: httpx2.Response = self._run(self._client.request(method, url, **given))
        return answer

    def close(self) -> None:
        self._run(self._client.aclose())


@contextmanager
def in_one_thread(app: ASGIApp) -> Iterator[OneThread]:
    """While it is open, Starlette runs routes that are no coroutines at once, without its pool of threads."""

    async def run_here(function: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        return function(*arguments)

    with loop() as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio.to_thread, "run_sync", run_here)
        with closing(OneThread(app, run)) as client:
            yield client
