"""A proxy in front of an S3 server that counts the bytes of objects which leave it, as the cloud's bill would."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_PIECE = 64 << 10


class CountingProxy:
    """`bytes_of` counts the bytes of each object's bodies that were read from the server, by its path in the bucket.

    `bytes_per_s` slows each answer down, so that a VM can be lost within one.
    """

    def __init__(self) -> None:
        self.url = ""
        self.bytes_of = Counter[str]()
        self.bytes_per_s: float | None = None
        self._changed = threading.Condition()

    @property
    def total(self) -> int:
        with self._changed:
            return sum(self.bytes_of.values())

    def count(self, name: str, size: int) -> None:
        with self._changed:
            self.bytes_of[name] += size
            self._changed.notify_all()

    def wait_for(self, size: int, longest_s: float = 90) -> bool:
        """Waits until so many bytes have left in all. Returns whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: sum(self.bytes_of.values()) >= size, longest_s)


@contextmanager
def counting_proxy(target: str) -> Iterator[CountingProxy]:
    """Passes every request on to `target`, with its Host, which S3's signatures cover."""
    proxy = CountingProxy()
    host, over = urlsplit(target).netloc, threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with contextlib.closing(http.client.HTTPConnection(host, timeout=60)) as server:
                server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    server.putheader(name, value)
                server.endheaders(body)
                with server.getresponse() as answer:
                    self._answer(answer)

        def _answer(self, answer: http.client.HTTPResponse) -> None:
            parts = urlsplit(self.path)
            is_object = self.command == "GET" and parts.path.strip("/").count("/") > 0 and answer.status < 300
            length = answer.getheader("Content-Length")
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            if length is None and self.command != "HEAD":
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            while piece := answer.read(_PIECE) if self.command != "HEAD" else b"":
                if is_object:
                    proxy.count(parts.path.strip("/"), len(piece))
                    if proxy.bytes_per_s is not None:
                        over.wait(len(piece) / proxy.bytes_per_s)
                self.wfile.write(piece)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # a reader that is killed leaves its request behind
                super().handle()

        def log_message(self, *_: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        over.set()
        listener.shutdown()
        thread.join()
        listener.server_close()
