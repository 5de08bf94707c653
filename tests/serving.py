"""An application behind a real server on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from costguard_sandbox.serving import QuickServer


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serves an application, and yields its address; the end of the block ends it."""
    server = QuickServer(app)
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP; it would hold answers for 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.end()
            thread.join()
