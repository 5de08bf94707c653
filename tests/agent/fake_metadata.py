"""The metadata server of one VM, with Secret Manager next to it: values that a test changes, and requests that wait."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ROOT = "/computeMetadata/v1/"
VM_TOKEN = "the-access-token-of-the-service-account"


class FakeMetadata:
    def __init__(self, url: str) -> None:
        self.url = f"{url}{ROOT.rstrip('/')}"
        self.secret_manager = url
        self.secrets: dict[str, str] = {}
        self.refusals = 0
        self.queries: dict[str, list[dict[str, str]]] = defaultdict(list)  # that came with a key
        self._values = {
            "instance/preempted": "FALSE",
            "instance/maintenance-event": "NONE",
            "instance/service-accounts/default/token": json.dumps({"access_token": VM_TOKEN, "expires_in": 3000}),
        }
        self._changed = threading.Condition()
        self._is_closed = False

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def forget(self, key: str) -> None:
        with self._changed:
            self._values.pop(key, None)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def answer(self, path: str, authorisation: str) -> tuple[int, bytes, str]:
        """Status, body and ETag."""
        url = urlsplit(path)
        if not url.path.startswith(ROOT):
            return self._secret(url.path, authorisation)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        key = url.path[len(ROOT) :]
        with self._changed:
            self.queries[key] += [query] if query else []
            if query.get("wait_for_change") == "true":
                self._changed.wait_for(
                    lambda: self._is_closed or _etag(self._values[key]) != query["last_etag"],
                    float(query["timeout_sec"]),
                )
            value = self._values.get(key)
        return (404, b"no such entry", "0") if value is None else (200, value.encode(), _etag(value))

    def _secret(self, path: str, authorisation: str) -> tuple[int, bytes, str]:
        self.refusals -= 1
        if self.refusals >= 0:
            return 503, b"try again", ""
        value = self.secrets.get(path.removeprefix("/v1/").removesuffix(":access"))
        if value is None or authorisation != f"Bearer {VM_TOKEN}":
            return 403, b"permission denied", ""
        return 200, json.dumps({"payload": {"data": base64.b64encode(value.encode()).decode()}}).encode(), ""


def _etag(value: str) -> str:
    return f"{hash(value) & 0xFFFFFFFF:x}"


@contextmanager
def metadata_server() -> Iterator[FakeMetadata]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith(ROOT) and self.headers["Metadata-Flavor"] != "Google":
                self.send_error(403)
                return
            status, body, etag = metadata.answer(self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # an agent that is killed leaves its request behind
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    metadata = FakeMetadata(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield metadata
    finally:
        metadata.close()
        server.shutdown()
        server.server_close()
