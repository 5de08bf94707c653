"""HTTP calls: to the metadata server and Secret Manager."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import json
import re
import shutil
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from typing import Any

from .failures import Trouble
from .settings import AttemptSettings, NotStarted

HELD_S = 60
GOOGLES = "metadata.google.internal"


def watch(metadata: Metadata, key: str, act: Callable[[str], None], over: threading.Event, retry_s: float) -> None:
    """Acts on a value of the metadata and on each change of it. The server holds each request until there is one."""
    etag, seen = "0", ""
    while not over.is_set():
        started_at = time.monotonic()
        try:
            value, etag = metadata.get(key, etag, HELD_S)
        except Trouble:
            over.wait(retry_s)
            continue
        if value.strip() != seen:
            seen = value.strip()
            act(seen)
        elif time.monotonic() - started_at < 0.1:  # a server that does not hold requests must not be flooded
            over.wait(retry_s)


MOST_ANSWER_BYTES = 1 << 20


class _StayHere(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to wherever it points."""

    def redirect_request(self, *_: Any) -> None:
        return None


@functools.lru_cache(maxsize=2)
def _trusting(authority: str) -> ssl.SSLContext:
    """Trusts this authority's certificates; "": those of the VM's own list, which takes 20 ms to read."""
    return ssl.create_default_context(cadata=authority or None)


class _Https(urllib.request.HTTPSHandler):
    """Reads the certificates with the first HTTPS call, once in a process: the metadata server is plain HTTP."""

    def __init__(self, authority: str) -> None:
        urllib.request.AbstractHTTPHandler.__init__(self)  # from Python 3.12, its own would read them
        self._authority = authority

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(http.client.HTTPSConnection, req, context=_trusting(self._authority))


class HttpCalls:
    def __init__(self, authority: str = "", is_direct: bool = False) -> None:
        handlers: list[urllib.request.BaseHandler] = [_StayHere(), _Https(authority)]
        if is_direct:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def __call__(
        self, url: str, headers: Mapping[str, str], body: bytes | None = None, timeout: float = 15
    ) -> tuple[bytes, Message]:
        with self._answered(url, headers, body, timeout) as answer:
            return answer.read(MOST_ANSWER_BYTES), answer.headers

    def save(self, url: str, headers: Mapping[str, str], path: str) -> None:
        """Writes the answer, of any length, to a file."""
        with self._answered(url, headers, None, 60) as answer, open(path, "wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)

    @contextlib.contextmanager
    def _answered(
        self, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> Iterator[http.client.HTTPResponse]:
        request = urllib.request.Request(url, body, dict(headers))
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                words = error.read(300).decode("utf-8", "replace")
            raise Trouble(f"{url.split('?')[0]} answered {error.code}: {words}", error.code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Trouble(f"{url.split('?')[0]}: {error}") from None


class Metadata:
    def __init__(self, base: str) -> None:
        self._base = base
        self._http = HttpCalls(is_direct=True)
        self.host = urllib.parse.urlsplit(base).netloc
        self.is_moved = self.host != GOOGLES  # a simulated VM's

    def get(self, path: str, etag: str = "", wait_s: int = 0) -> tuple[str, str]:
        """The value and its ETag. With an ETag, the answer comes when the value changes, or after `wait_s`."""
        query = f"?wait_for_change=true&last_etag={urllib.parse.quote(etag)}&timeout_sec={wait_s}" if etag else ""
        body, headers = self._http(f"{self._base}/{path}{query}", {"Metadata-Flavor": "Google"}, timeout=wait_s + 10.0)
        if headers.get("Metadata-Flavor") != "Google":
            raise Trouble(f"{self._base} is not a metadata server")
        return body.decode("utf-8", "replace"), headers.get("ETag", "0")


def fetch_secrets(settings: AttemptSettings, metadata: Metadata, http: HttpCalls) -> dict[str, str]:
    """The secrets by variable, read with the VM's own service account."""
    if not settings.secrets:
        return {}
    token = json.loads(metadata.get("instance/service-accounts/default/token")[0])["access_token"]
    values = {}
    for name, reference in settings.secrets.items():
        if not re.fullmatch(r"projects/[\w.:-]+/secrets/[\w-]+(/versions/\w+)?", reference):
            raise NotStarted(f"secret {name}: {reference} is not projects/P/secrets/S or .../versions/V")
        version = reference if "/versions/" in reference else f"{reference}/versions/latest"
        url = f"{settings.secret_manager}/v1/{version}:access"
        body, _ = http(url, {"Authorization": f"Bearer {token}"})
        values[name] = base64.b64decode(json.loads(body)["payload"]["data"]).decode()
    return values
