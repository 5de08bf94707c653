"""Messages between the process that serves and the one that renders: a size and a pickle.

Apart from web/renderer.py, because the first message comes before placeholders may be imported (see web/marks.py).
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from typing import Any

_LARGEST = 1 << 30
_SIZE = struct.Struct(">Q")


def framed(message: Any) -> bytes:
    packed = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _SIZE.pack(len(packed)) + packed


def first_message(end: socket.socket) -> Any:
    """Reads the first message of the serving process. Raises ConnectionError where it has gone."""
    return pickle.loads(_whole(end, *_SIZE.unpack(_whole(end, _SIZE.size))))  # noqa: S301 - from the process that started this


def _whole(end: socket.socket, size: int) -> bytes:
    read = end.recv(size, socket.MSG_WAITALL)
    if len(read) < size:
        raise ConnectionError("the serving process has gone")
    return read


async def received(reader: asyncio.StreamReader) -> Any:
    """Raises IncompleteReadError at the end, and anything for nonsense."""
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    if size > _LARGEST:
        raise ValueError(f"a message of {size} bytes")
    return pickle.loads(await reader.readexactly(size))  # noqa: S301 - from a process that this one started, or that started it
