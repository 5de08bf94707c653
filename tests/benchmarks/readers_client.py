"""Many readers at once, in a process of their own: each asks, reads the whole answer, and asks the next at once.

On its standard input is one JSON object, on its standard output another; see `Crowd` and `Found`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial
from typing import TypedDict


class Crowd(TypedDict):
    """`readers` are the lines that say who each is: a cookie or a token. Each begins at another address."""

    port: int
    readers: list[str]
    addresses: list[str]
    seconds: float


class Found(TypedDict):
    """`errors` are statuses other than 200 and 304, by status, and "lost" connections; `cpu` is this process's own."""

    seconds: list[float]
    first: list[float]  # each reader's first request
    health: list[float]  # the health check, on a connection of its own each time
    errors: dict[str, int]
    cpu: float
    took: float


class _Reader(asyncio.Protocol):
    """A reader's connection; `next` is called with the answer's status when all of it is there."""

    def __init__(self, crowd: Crowd, number: int, figures: Found) -> None:
        self._crowd, self._number, self._found = crowd, number, figures
        self._head = b""
        self._left, self._status, self._asked = 0, 0, 0
        self._begun = 0.0
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        if not self._left:
            head, separator, data = (self._head + data).partition(b"\r\n\r\n")
            if not separator:
                self._head = head
                return
            self._head = b""
            self._status = int(head[9:12])
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0]
            self._left = int(length or 0)
        self._left -= len(data)
        if self._left <= 0:
            self._left = 0
            self._answered()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self._found["errors"]["lost"] = self._found["errors"].get("lost", 0) + 1
            self.over.set_result(None)

    def _ask(self) -> None:
        addresses = self._crowd["addresses"]
        address = addresses[(self._number * 7 + self._asked) % len(addresses)]
        self._begun = time.perf_counter()
        who = self._crowd["readers"][self._number]
        accepts = "application/json" if address.startswith("/api/") else "text/html"
        lines = [f"GET {address} HTTP/1.1", "Host: guard", who, f"Accept: {accepts}", "Accept-Encoding: gzip", "", ""]
        self._transport.write("\r\n".join(lines).encode())

    def _answered(self) -> None:
        took = time.perf_counter() - self._begun
        self._found["seconds"].append(took)
        if self._asked == 0:
            self._found["first"].append(took)
        if self._status not in (200, 304):
            key = str(self._status)
            self._found["errors"][key] = self._found["errors"].get(key, 0) + 1
        self._asked += 1
        if time.perf_counter() >= self._ends:
            self.over.set_result(None)
            self._transport.close()
        else:
            self._ask()

    @property
    def _ends(self) -> float:
        return self._found["took"] + self._crowd["seconds"]


async def _read(crowd: Crowd) -> Found:
    loop, begun = asyncio.get_running_loop(), time.perf_counter()
    figures = Found(seconds=[], first=[], health=[], errors={}, cpu=0.0, took=begun)
    readers = []
    for number in range(len(crowd["readers"])):
        _, reader = await loop.create_connection(partial(_Reader, crowd, number, figures), "127.0.0.1", crowd["port"])
        readers.append(reader)
    checks = loop.create_task(_check(crowd["port"], figures))
    await asyncio.gather(*(reader.over for reader in readers))
    checks.cancel()
    figures["took"], figures["cpu"] = time.perf_counter() - begun, time.process_time()
    return figures


async def _check(port: int, figures: Found) -> None:
    while True:
        begun = time.perf_counter()
        reading, writing = await asyncio.open_connection("127.0.0.1", port)
        writing.write(b"GET /healthz HTTP/1.1\r\nHost: guard\r\nConnection: close\r\n\r\n")
        assert (await reading.read()).startswith(b"HTTP/1.1 200")
        writing.close()
        figures["health"].append(time.perf_counter() - begun)
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_read(json.load(sys.stdin)))))
