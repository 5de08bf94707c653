"""An app that receives what Slack sends, and verifies it with the real SDK."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from slack_sdk.signature import SignatureVerifier


@dataclass
class App:
    """`answer` is asked for each request that is validly signed: its status and body."""

    verifier: SignatureVerifier
    answer: Callable[[dict[str, Any]], tuple[int, object]] = lambda _payload: (200, "")
    url: str = ""
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    refused: int = 0

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, object]:
        if not self.verifier.is_valid_request(body, headers):
            self.refused += 1
            return 401, ""
        form = {key: values[0] for key, values in parse_qs(body.decode(), keep_blank_values=True).items()}
        payload = json.loads(form["payload"]) if "payload" in form else dict(form)
        self.received.append((path, payload))
        return self.answer(payload)


@contextmanager
def receiving(app: App) -> Iterator[App]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = app.take(self.path, body, dict(self.headers.items()))
            raw = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_args: object) -> None:
            """Quietly."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        app.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield app
        finally:
            server.shutdown()
            thread.join()
