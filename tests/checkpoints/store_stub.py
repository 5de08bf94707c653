"""An object store on loopback: the parts of S3's XML API that obstore uses, for S3 and for GCS alike."""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

MODIFIED = "2026-11-20T12:00:00.000Z"


@dataclass
class StubBucket:
    """A bucket with its objects and refusals: `refuse` may answer any request with a status and a body."""

    url: str
    objects: dict[str, bytes] = field(default_factory=dict)
    page: int = 1000
    refuse: Callable[[str, str], tuple[int, str] | None] = lambda method, key: None
    requests: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def listed(self, query: dict[str, list[str]]) -> str:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        names = sorted(self.objects)
        at = max(bisect_left(names, prefix), bisect_right(names, after)) if after else bisect_left(names, prefix)
        rows: list[str] = []
        folders: list[str] = []
        last = ""
        while at < len(names) and names[at].startswith(prefix) and len(rows) + len(folders) < self.page:
            name = last = names[at]
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                folder = name[: cut + 1]
                folders.append(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>")
                at = bisect_left(names, folder[:-1] + chr(ord(folder[-1]) + 1))
                last = names[at - 1]
                continue
            size, tag = len(self.objects[name]), etag(self.objects[name])
            rows.append(
                f"<Contents><Key>{escape(name)}</Key><LastModified>{MODIFIED}</LastModified>"
                f"<ETag>{escape(tag)}</ETag><Size>{size}</Size></Contents>"
            )
            at += 1
        more = at < len(names) and names[at].startswith(prefix)
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        inner = "".join(rows + folders) + f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        return f'<?xml version="1.0"?><ListBucketResult>{inner}</ListBucketResult>'


def etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _span(header: str, size: int) -> tuple[int, int]:
    """Reads a Range header, its end not included."""
    begin, _, end = header.removeprefix("bytes=").partition("-")
    if not begin:
        return max(0, size - int(end)), size
    return int(begin), min(size, int(end) + 1) if end else size


def _handler(bucket: StubBucket, name: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            if "Content_Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def handle_one(self) -> None:
            parts = urlsplit(self.path)
            where, _, key = unquote(parts.path).lstrip("/").partition("/")
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            bucket.requests.append(f"{self.command} {self.path}")
            bucket.headers.append({name.lower(): value for name, value in self.headers.items()})
            refused = bucket.refuse(self.command, key)
            if refused is not None:
                self.answer(refused[0], refused[1].encode())
            elif where != name:
                self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            elif self.command == "PUT":
                bucket.objects[key] = sent
                self.answer(200, ETag=etag(sent))
            elif self.command == "DELETE":
                bucket.objects.pop(key, None)
                self.answer(204)
            elif not key:
                self.answer(200, bucket.listed(parse_qs(parts.query)).encode("utf-8", "surrogatepass"))
            elif key not in bucket.objects:
                self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            else:
                self.send_object(bucket.objects[key])

        def send_object(self, body: bytes) -> None:
            headers = {"ETag": etag(body), "Last_Modified": "Fri, 20 Nov 2026 12:00:00 GMT"}
            span = self.headers.get("Range")
            if not span:
                return self.answer(200, body, Content_Length=str(len(body)), **headers)
            begin, end = _span(span, len(body))
            if begin >= len(body):
                return self.answer(416)
            return self.answer(206, body[begin:end], Content_Range=f"bytes {begin}-{end - 1}/{len(body)}", **headers)

        do_GET = do_HEAD = do_PUT = do_DELETE = handle_one

        def log_message(self, format: str, *args: object) -> None:
            """The tests read `requests`; nothing is printed."""

    return Handler


@contextmanager
def store(name: str = "bkt") -> Iterator[StubBucket]:
    """Serve one bucket of this name on a free port until the block ends; any other is NoSuchBucket."""
    bucket = StubBucket("")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(bucket, name))
    server.daemon_threads = True
    bucket.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
