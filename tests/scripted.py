"""A server that gives prepared answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Script:
    """A server that gives these answers in turn; None drops the connection. It keeps the requests.

    The third part of an answer is its headers.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[Any, ...] | None] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.url = ""

    def body(self, number: int = -1) -> Any:
        return self.asked[number][3]


@contextmanager
def scripted() -> Iterator[Script]:
    made = Script()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_HEAD(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_PUT(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: Any) -> None:
            made.asked.append((self.command, self.path, dict(self.headers), body))
            answer = made.answers.pop(0)
            if answer is not None:
                content = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
                self.send_response(answer[0])
                for name, value in (answer[2] if len(answer) > 2 else {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
