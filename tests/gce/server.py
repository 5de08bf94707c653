"""A small HTTP server that answers as a test tells it to, and notes what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson


@dataclass(frozen=True)
class Asked:
    """A request: its path, its query, its headers (names in lower case), its JSON."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any = None


@dataclass
class Answer:
    """An answer. `promised` is a Content-Length that the body does not keep."""

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None
    before_body: Callable[[], object] | None = None


@dataclass
class Server:
    url: str
    requests: list[Asked]

    def paths(self) -> list[str]:
        return [one.path.rsplit("/", 1)[-1] for one in self.requests]


def json_answer(value: Any, status: int = 200) -> Answer:
    return Answer(orjson.dumps(value), status)


def google_error(status: int, reason: str, message: str = "No.") -> Answer:
    """An error in the shape that Google gives it."""
    part = {"message": message, "domain": "global", "reason": reason}
    return json_answer({"error": {"code": status, "message": message, "errors": [part]}}, status)


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[Server]:
    """Serve on a free port of the loopback until the block ends."""
    requests: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            headers = {k.lower(): v for k, v in self.headers.items()}
            sent = self.rfile.read(int(headers.get("content-length", 0)))
            request = Asked(parts.path, dict(parse_qsl(parts.query)), headers, orjson.loads(sent) if sent else None)
            requests.append(request)
            reply = answer(request)
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            length = len(reply.body) if reply.promised is None else reply.promised
            self.send_header("Content-Length", str(length))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.before_body is not None:
                self.wfile.flush()
                reply.before_body()
            self.wfile.write(reply.body)
            self.close_connection = reply.promised is not None

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """The tests read `asked`; nothing is printed."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hung up is part of some tests."""

    server = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_address[1]}", requests)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
