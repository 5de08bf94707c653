"""uvicorn, for those who start and end a server hundreds of times."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.types import ASGIApp

_PATIENCE_S = 2.0


class QuickServer(uvicorn.Server):
    """Ends at once. uvicorn's own looks ten times a second whether it is to, and then whether everybody has gone."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="auto"))
        self._hurry: Callable[[], object] = lambda: None

    def end(self) -> None:
        """From any thread."""
        self.should_exit = True
        with suppress(RuntimeError):  # it has ended by itself
            self._hurry()

    async def main_loop(self) -> None:
        ended = asyncio.Event()
        self._hurry = partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set)
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), 0.1)  # a signal does not set it

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Whoever still listens gets an answer; what nobody listens to is left undone."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while self.server_state.connections and not self.force_exit:
                    await asyncio.sleep(0.005)
