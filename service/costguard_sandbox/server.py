"""The simulated cloud over HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import IO

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from costguard_sandbox import control
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.routes import batch, disks, images, instances, networks, operations, places, time_series
from costguard_sandbox.gce.routes.call import refusal
from costguard_sandbox.guest import metadata_server
from costguard_sandbox.serving import QuickServer
from costguard_sandbox.slack.routes import slack_routes
from costguard_sandbox.world import World

_LOOKS_EVERY_S = 0.5


def create_app(world: World) -> Starlette:
    """Compute Engine under /compute/v1, also in batches, the price catalogue under /v1, Cloud Monitoring under /v3.

    Each VM finds its metadata server under /metadata; what is our own is under /sandbox.
    """
    routes = [
        *instances.routes(world),
        *operations.routes(world),
        *disks.routes(world),
        *places.routes(world),
        *images.routes(world),
        *networks.routes(world),
        *time_series.routes(world),
        *control.routes(world),
        *metadata_server.routes(world),
        *slack_routes(world.slack),
    ]
    handlers = {404: _unknown, 405: _unknown}
    alone = Starlette(routes=routes, exception_handlers=handlers)
    return Starlette(routes=[*batch.routes(alone), *routes], exception_handlers=handlers)


async def _unknown(request: Request, _error: Exception) -> Response:
    message = f"The simulated cloud has no {request.method} {request.url.path}"
    if "/machineImages" in request.url.path:
        message += ": it keeps no machine images; make the VM from an image or from a disk"
    if request.url.path.startswith(("/compute/beta/", "/compute/alpha/")):
        message += "; of the Compute Engine API it speaks v1 alone"
    return refusal(Refused(404, "notFound", message))


class _Server(QuickServer):
    def __init__(self, world: World) -> None:
        super().__init__(create_app(world))
        self._world = world

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Also after SIGTERM, of which uvicorn dies as soon as this is done."""
        await asyncio.to_thread(self._world.unserve)
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP; it would hold answers for 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


@contextmanager
def running(world: World, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve a world from a thread and give its address, free of a trailing slash; the end of the block ends it.

    The socket listens before the block begins, so the first request cannot come too early.
    """
    server = _Server(world)
    with _listen(host, port) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="sandbox", daemon=True)
        thread.start()
        url = _address(host, listener)
        try:
            world.serve_at(url)
            with _life(world) if world.guests and world.clock.speed else nullcontext():
                yield url
        finally:
            server.end()
            thread.join()


def serve(
    world: World,
    host: str = "127.0.0.1",
    port: int = 0,
    announce: Callable[[str], None] | None = None,
    until_ends: IO[str] | None = None,
) -> None:
    """Serve a world in this thread until Ctrl-C, or until `until_ends` does. Raises OSError when the port is taken.

    `announce` is called with the address as soon as it is listened on.
    """
    with _listen(host, port) as listener:
        server = _Server(world)
        if until_ends is not None:
            threading.Thread(target=_follow, args=(until_ends, server), name="input", daemon=True).start()
        url = _address(host, listener)
        world.serve_at(url)
        if announce is not None:
            announce(url)
        with _life(world), suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


@contextmanager
def _life(world: World) -> Iterator[None]:
    """What is due happens, and people press what they mean to, while nobody asks anything."""
    ended = threading.Event()

    def live() -> None:
        while not ended.wait(_LOOKS_EVERY_S):
            with world.settled():
                pass
            world.slack.presses.look()

    threading.Thread(target=live, name="life", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _follow(stream: IO[str], server: _Server) -> None:
    """Whoever started us holds the other end: however they end, it closes."""
    while stream.read(1):
        pass
    server.end()


def _address(host: str, listener: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
