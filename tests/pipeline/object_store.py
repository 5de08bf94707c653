"""A real S3 server, and a proxy before it that can hold a transfer in its middle and notes what went over the wire.

moto serves S3 as AWS documents it, and nobody here or at rclone wrote it; `rclone serve s3` would be the same program
at both ends. As at S3, an upload that is cut off leaves nothing: the proxy passes on whole bodies alone.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.store import S3Store
from tests.ports import free_port
from tests.trainers.bench_client import ROOT

SERVER = ROOT / ".cache" / "pipeline" / "venv" / "bin" / "moto_server"
REGION, KEY_ID, KEY = "us-east-1", "testing", "testing"
_PATIENCE_S = 60.0
_CHUNK = 1 << 16
_CHECKPOINT = re.compile(r"(?:checkpoint-|step=|ckpt_)\d+")
# Of one connection: each side sets its own.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "content-length", "server", "date"})


@dataclass(frozen=True)
class StoreRequest:
    """A request that was answered. `sent` and `received` are the bytes of its body and of its answer's."""

    method: str
    path: str  # /bucket/key, without its query
    query: str
    sent: int
    received: int
    status: int

    @property
    def is_upload(self) -> bool:
        """Says whether it uploads content: a copy within the store sends none."""
        return self.method == "PUT" and self.sent > 0


@dataclass
class Hold:
    """Stops transfers of objects with `part` in their paths after so many bytes. Released, they end there.

    The first `spared` checkpoints go through.
    """

    method: str
    part: str
    after: int = _CHUNK
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    spared: int = 0
    through: set[str] = field(default_factory=set)
    path: str = ""  # of the first transfer that it stopped

    def is_for(self, method: str, path: str, size: int) -> bool:
        if self.released.is_set() or method != self.method or self.part not in path or size <= self.after:
            return False
        checkpoint = _CHECKPOINT.search(path)
        if checkpoint is not None and len(self.through) < self.spared:
            self.through.add(checkpoint[0])
        return checkpoint is None or checkpoint[0] not in self.through

    def stop(self, path: str) -> None:
        self.path = self.path or path
        self.reached.set()
        self.released.wait()


class ObjectStore:
    """Buckets by `url`, through the proxy; `direct` reaches the server without it, as the tests' own look."""

    def __init__(self, url: str, direct: str) -> None:
        self.url, self.direct = url, direct
        self.requests: list[StoreRequest] = []
        self.holds: list[Hold] = []
        self.lock = threading.Lock()

    def hold(self, method: str, part: str, spared: int = 0) -> Hold:
        hold = Hold(method, part, spared=spared)
        with self.lock:
            self.holds.append(hold)
        return hold

    def held(self, method: str, path: str, size: int) -> Hold | None:
        with self.lock:
            return next((hold for hold in self.holds if hold.is_for(method, path, size)), None)

    def note(self, request: StoreRequest) -> None:
        with self.lock:
            self.requests.append(request)

    def make(self, bucket: str) -> None:
        target = urlsplit(self.direct)
        with contextlib.closing(http.client.HTTPConnection(target.netloc, timeout=_PATIENCE_S)) as connection:
            connection.request("PUT", f"/{bucket}")
            assert connection.getresponse().status == 200, f"no bucket {bucket}"

    def put(self, bucket: str, folder: Path, prefix: str) -> None:
        """All files of a folder."""
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            obstore.put(self._store(bucket), f"{prefix}/{path.relative_to(folder)}", path.read_bytes())

    def get(self, bucket: str, prefix: str, folder: Path) -> None:
        """All objects below a prefix, as a reader elsewhere would fetch them."""
        for name in self.names(bucket, prefix):
            path = folder / name.removeprefix(prefix).lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.read(bucket, name))

    def read(self, bucket: str, name: str) -> bytes:
        """Reads an object. Raises FileNotFoundError."""
        return bytes(obstore.get(self._store(bucket), name).bytes())

    def names(self, bucket: str, prefix: str = "") -> list[str]:
        rows = obstore.list(self._store(bucket), prefix or None).collect()
        return sorted(row["path"] for row in rows)

    def variables(self) -> dict[str, str]:
        """Returns the variables that a program needs in its environment to reach the buckets."""
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
        }

    def _store(self, bucket: str) -> S3Store:
        config: Any = {
            "endpoint": self.direct,
            "region": REGION,
            "access_key_id": KEY_ID,
            "secret_access_key": KEY,
        }
        return S3Store(bucket, config=config, client_options={"allow_http": True})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def handle_one_request(self) -> None:
        """A client that went away is what is being tested."""
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _forward(self) -> None:
        parts = urlsplit(self.path)
        path, store = unquote(parts.path), self.server.objects
        size = int(self.headers.get("Content-Length") or 0)
        body = self._body(size, store.held(self.command, path, size), path)
        if body is None:
            self.close_connection = True
            return
        status, headers, answer, length = self._ask(body)
        held = store.held(self.command, path, len(answer))
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(answer)))
        self.end_headers()
        if held is not None:
            self.wfile.write(answer[: held.after])
            self.wfile.flush()
            held.stop(path)
            self.close_connection = True
            return
        self.wfile.write(answer)
        store.note(StoreRequest(self.command, path, parts.query, len(body), len(answer), status))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward

    def _body(self, size: int, held: Hold | None, path: str) -> bytes | None:
        """Returns the body; None where it was held, or ends early: nothing of it is passed on."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._chunks()
        if held is not None:
            self.rfile.read(held.after)
            held.stop(path)
            return None
        body = self.rfile.read(size)
        return body if len(body) == size else None

    def _chunks(self) -> bytes | None:
        parts = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes, str]:
        """Status, headers, body, and the length that an answer to HEAD names."""
        target = urlsplit(self.server.objects.direct)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        with contextlib.closing(http.client.HTTPConnection(target.netloc, timeout=_PATIENCE_S)) as connection:
            connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
            answer = connection.getresponse()
            length = answer.headers.get("Content-Length", "") if self.command == "HEAD" else ""
            return answer.status, answer.getheaders(), answer.read(), length

    def log_message(self, format: str, *args: object) -> None:
        """Requests are noted, not printed."""


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    objects: ObjectStore


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    port = free_port()
    with (folder / "s3.log").open("w") as log:
        server = subprocess.Popen(
            [str(SERVER), "-H", "127.0.0.1", "-p", str(port)],
            stdout=log,
            stderr=log,
            env={"PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": REGION},
        )
        proxy = _Proxy(("127.0.0.1", 0), _Handler)
        proxy.objects = ObjectStore(f"http://127.0.0.1:{proxy.server_port}", f"http://127.0.0.1:{port}")
        serving = threading.Thread(target=proxy.serve_forever, name="store-proxy")
        serving.start()
        try:
            _wait_until_up(port, server, folder / "s3.log")
            yield proxy.objects
        finally:
            for hold in proxy.objects.holds:
                hold.released.set()
            proxy.shutdown()
            serving.join()
            proxy.server_close()
            server.terminate()
            server.wait(_PATIENCE_S)


def _wait_until_up(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    latest, pause = time.monotonic() + _PATIENCE_S, threading.Event()
    while time.monotonic() < latest and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        pause.wait(0.1)
    raise AssertionError(f"the S3 server does not start: {log.read_text()[-2000:]}")
