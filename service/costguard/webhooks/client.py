"""Posts to webhook receivers: no redirects, verified certificates, bounded time and size."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx2

from costguard.errors import WebhookError
from costguard.model.delivery.webhook import WebhookResponse

_TIMEOUT_S = 10.0
_MOST_BYTES = 4096  # of an answer
_MOST_WORDS = 200  # of it that people see


class HttpPoster:
    """Keeps connections open between messages. `version` is sent as the user agent."""

    def __init__(self, version: str, timeout_s: float = _TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._headers = {"user-agent": f"Costguard/{version}", "accept-encoding": "identity"}
        self._lock = threading.Lock()
        self._clients: dict[bool, httpx2.Client] = {}  # by whether a proxy of the environment's is used

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookResponse:
        """The response, whatever its status. Raises WebhookError."""
        # Receivers on this computer, the only ones without TLS, are not reached through a proxy.
        client = self._client(by_proxy=not url.startswith("http:"))
        try:
            with client.stream("POST", url, content=body, headers=dict(headers)) as response:
                words = self._words(response)
                return WebhookResponse(response.status_code, words, _retry_after(response.headers))
        except httpx2.TimeoutException as error:
            raise WebhookError(
                f"The receiver at {_shown(url)} did not answer within {self._timeout_s:g} s.",
                "Let it answer at once and do its work afterwards. Costguard tries again.",
            ) from error
        except httpx2.HTTPError as error:
            raise WebhookError(
                f"The receiver at {_shown(url)} cannot be reached: {error or type(error).__name__}.",
                "Check its url, its certificate and the network. Costguard tries again.",
            ) from error

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _client(self, *, by_proxy: bool) -> httpx2.Client:
        """Returns the client, made when first needed: reading the certificates takes longer than starting does."""
        with self._lock:
            if by_proxy not in self._clients:
                self._clients[by_proxy] = httpx2.Client(
                    timeout=self._timeout_s, headers=self._headers, follow_redirects=False, trust_env=by_proxy
                )
            return self._clients[by_proxy]

    def _words(self, response: httpx2.Response) -> str:
        """The beginning of the body. A slow one is not waited for: the status is enough."""
        until = time.monotonic() + self._timeout_s
        read = b""
        try:
            for chunk in response.iter_raw():
                read += chunk
                if len(read) >= _MOST_BYTES or time.monotonic() > until:
                    break
        except httpx2.HTTPError:
            pass  # the answer itself came
        text = "".join(sign if sign.isprintable() else " " for sign in read[:_MOST_BYTES].decode("utf-8", "replace"))
        return " ".join(text.split())[:_MOST_WORDS]


def _retry_after(headers: httpx2.Headers) -> timedelta | None:
    """Seconds, or a moment, which is held against the receiver's own clock."""
    given = headers.get("retry-after", "").strip()
    if given.isascii() and given.isdecimal():
        return timedelta(seconds=min(int(given[:9]), 10**8))
    try:
        span = _moment(given) - _moment(headers.get("date", ""))
    except ValueError:
        return None
    return max(timedelta(), span)


def _moment(text: str) -> datetime:
    moment = parsedate_to_datetime(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _shown(url: str) -> str:
    """Returns an address without its path, which holds a secret for some receivers."""
    parts = httpx2.URL(url)
    return f"{parts.scheme}://{parts.netloc.decode('ascii')}"
