"""A real HTTP server on loopback that answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import orjson


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    form: Mapping[str, str]

    @property
    def basic(self) -> str:
        """`user:password`, as HTTP's basic authentication carries it."""
        return base64.b64decode(self.headers.get("authorization", "").removeprefix("Basic ")).decode()


Answer = tuple[int, object]  # bytes are sent as they are, an iterator's one by one; a text is where to go


@dataclass
class Served:
    url: str = ""
    requests: list[Asked] = field(default_factory=list)

    def count(self, path: str) -> int:
        return sum(one.path == path for one in self.requests)


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            parts = urlsplit(self.path)
            request = Asked(
                method=self.command,
                path=parts.path,
                query=dict(parse_qsl(parts.query)),
                headers={name.lower(): value for name, value in self.headers.items()},
                form=dict(parse_qsl(body.decode())),
            )
            served.requests.append(request)
            status, content = answer(request)
            self.send_response(status)
            if isinstance(content, Iterator):
                self.end_headers()
                with suppress(OSError):  # anyone who asked does not wait for all of it
                    for piece in content:
                        self.wfile.write(piece)
                return
            if isinstance(content, str):
                self.send_header("Location", content)
                content = b""
            sent = content if isinstance(content, bytes) else orjson.dumps(content)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: requests are no test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
