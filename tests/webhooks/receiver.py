"""A receiver of webhooks over real HTTP, which checks signatures in its own way."""

from __future__ import annotations

import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # the one of the standard's own examples


def is_signed(headers: Mapping[str, str], body: bytes, secret: str = SECRET) -> bool:
    """Checks a signature by RFC 2104 and the text of the standard, without the help of anything that signed it."""
    key = b64decode(secret.removeprefix("whsec_")).ljust(64, b"\0")
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    inner = sha256(bytes(byte ^ 0x36 for byte in key) + text).digest()
    expected = b64encode(sha256(bytes(byte ^ 0x5C for byte in key) + inner).digest()).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split(" ")


@dataclass
class Got:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.body)
        return result


Reply = tuple[int, dict[str, str], bytes]


@dataclass
class Receiver:
    """Answers 204 unless `answers` holds something else to say next; what is wrongly signed gets a 401."""

    url: str = ""
    got: list[Got] = field(default_factory=list)
    answers: list[Reply] = field(default_factory=list)
    before: Callable[[], object] = lambda: None  # the answer

    @property
    def names(self) -> list[str]:
        """Returns the names of the events that came, in their order, refused ones included."""
        return [item.event["name"] for item in self.got]

    def reply(self, got: Got) -> Reply:
        self.got.append(got)
        self.before()
        if not is_signed(got.headers, got.body):
            return 401, {}, b"wrongly signed"
        return self.answers.pop(0) if self.answers else (204, {}, b"")

    @contextmanager
    def listening(self) -> Iterator[Receiver]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, given, content = outer.reply(Got(self.path, headers, body))
                self.send_response_only(status)
                for name, value in {"Content-Length": str(len(content)), **given}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Ignores an error: a sender that hung up is no trouble of the receiver's."""

        with Quiet(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_address[1]}/in?team=a"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()
