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

from costguard_sandbox import assets, bigquery, control, pubsub
from costguard_sandbox.audit import routes as audit
from costguard_sandbox.audit.unread import in_front_of
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.routes import (
    advice,
    batch,
    belongings,
    disks,
    groups,
    iam,
    instances,
    monitoring,
    operations,
    places,
    resource_policies,
    rights,
    templates,
    tpus,
    vertex,
    workbench,
)
from costguard_sandbox.gce.routes.call import refusal
from costguard_sandbox.guest import identity, metadata
from costguard_sandbox.request_log import RequestLog
from costguard_sandbox.serving import QuickServer
from costguard_sandbox.slack import control as slack_control
from costguard_sandbox.slack import web_api
from costguard_sandbox.slack.page import routes as slack_page
from costguard_sandbox.world import World

_BACKGROUND_EVERY_S = 0.5


def create_app(world: World) -> Starlette:
    """Compute Engine under /compute/v1, also in batches, the price catalogue under /v1, Cloud Monitoring under /v3,
    Workbench and Cloud TPU under /v2, and what an account may do where each service has it.

    Cloud Asset Inventory is under /v1 as well. Metadata servers are under /metadata, Slack is under /slack, BigQuery
    under /bigquery/v2, Pub/Sub under /v1/projects, and the sandbox's own routes are under /sandbox.
    """
    routes = [
        *instances.routes(world),
        *operations.routes(world),
        *belongings.routes(world),
        *disks.routes(world),
        *groups.routes(world),
        *templates.routes(world),
        *vertex.routes(world),
        *workbench.routes(world),
        *tpus.routes(world),
        *places.routes(world),
        *resource_policies.routes(world),
        *advice.routes(world),
        *(in_front_of(route, world.pubsub, world) for route in monitoring.routes(world)),
        *rights.routes(world),
        *iam.routes(world),
        *control.routes(world),
        *metadata.routes(world),
        *identity.routes(),
        *web_api.routes(world.slack),
        *slack_control.routes(world.slack),
        world.slack.sockets.route(),
        *slack_page.routes(world.slack),
        *bigquery.routes(world.bigquery),
        *pubsub.routes(world.pubsub, world.settle),
        *assets.routes(world, world.assets),
        *audit.routes(world, world.audit),
    ]
    handlers = {404: _unknown, 405: _unknown}
    alone = Starlette(routes=routes, exception_handlers=handlers)
    return Starlette(routes=[*batch.routes(alone), *routes], exception_handlers=handlers)


async def _unknown(request: Request, _error: Exception) -> Response:
    message = f"The simulated cloud has no {request.method} {request.url.path}"
    if "/machineImages" in request.url.path:
        message += ": it has no machine images; create the VM from an image or a disk"
    if request.url.path.startswith(("/compute/beta/", "/compute/alpha/")):
        message += "; it has only v1 of the Compute Engine API"
    return refusal(Refused(404, "notFound", message))


class _SandboxServer(QuickServer):
    def __init__(self, world: World, requests: IO[bytes] | None = None) -> None:
        app = create_app(world)
        super().__init__(app if requests is None else RequestLog(app, requests, world.clock))
        self._world = world

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shuts down; also after SIGTERM, which ends uvicorn as soon as this returns."""
        await asyncio.to_thread(self._world.unserve)
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    # asyncio turns Nagle's algorithm, a delay of 40 ms, off only for sockets created as TCP.
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
    """Serve a world from a thread until the end of the block; gives its address, without a trailing slash.

    The socket listens before the block begins, so the first request cannot come too early.
    """
    server = _SandboxServer(world)
    with _listen(host, port) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="sandbox", daemon=True)
        thread.start()
        url = _address(host, listener)
        try:
            world.serve_at(url)
            with _background(world) if world.guests and world.clock.speed else nullcontext():
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
    requests: IO[bytes] | None = None,
) -> None:
    """Serve a world in this thread until Ctrl-C or the end of `until_ends`. Raises OSError when the port is taken.

    `announce` is called with the address once it is listened on. Every request is written to `requests`.
    """
    with _listen(host, port) as listener:
        server = _SandboxServer(world, requests)
        if until_ends is not None:
            threading.Thread(target=_follow, args=(until_ends, server), name="input", daemon=True).start()
        url = _address(host, listener)
        world.serve_at(url)
        if announce is not None:
            announce(url)
        with _background(world), suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


@contextmanager
def _background(world: World) -> Iterator[None]:
    """Run due events and planned button clicks while no requests arrive."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(_BACKGROUND_EVERY_S):
            with world.settled():
                pass
            world.slack.clicks.run_due()

    threading.Thread(target=run, name="background", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _follow(stream: IO[str], server: _SandboxServer) -> None:
    """The parent process holds the other end, which closes however the parent ends."""
    while stream.read(1):
        pass
    server.end()


def _address(host: str, listener: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
