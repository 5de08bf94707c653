"""The tools that are offered, and the way the server is run."""

from __future__ import annotations

import time
from collections.abc import Callable

from mcp_types import ToolAnnotations

from costguard_client import Client
from costguard_client.mcp.acting import ACTING
from costguard_client.mcp.reading import READING
from costguard_client.mcp.server import GuardServer

_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
_ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)


def make_server(guard: Client, seconds: Callable[[], float] = time.monotonic) -> GuardServer:
    server = GuardServer(guard, seconds)
    for read in READING:
        server.add_tool(read, annotations=_READS)
    for act in ACTING:
        server.add_tool(act, annotations=_ACTS)
    return server


def run(guard: Client) -> None:
    """Speaks on standard input and output until the client ends."""
    make_server(guard).run("stdio")
