"""The socket that the serving processes share."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from costguard.errors import CostguardError

_BACKLOG = 128
_TRIES, _BETWEEN_TRIES_S = 20, 0.1  # a guard that was killed leaves its port within moments


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Raises CostguardError where that cannot be."""
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP; it would hold answers for 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            _bind(listener, host, port)
        except OSError as error:
            raise CostguardError(
                f"Costguard cannot listen at {host}:{port}: {error.strerror}.",
                "Choose another port under [server] listen, or with --listen.",
            ) from error
        yield listener


def address_of(host: str, listener: socket.socket) -> str:
    """`http://HOST:PORT`, with the port that the system chose where it was left to it."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def _bind(listener: socket.socket, host: str, port: int) -> None:
    pause = threading.Event()
    for tries_left in reversed(range(_TRIES)):
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not tries_left:
                raise
            pause.wait(_BETWEEN_TRIES_S)
        else:
            return
