"""Sends requests: with the standard library, so that a command starts quickly, and for asyncio with httpx2.

Neither follows redirects, reads the environment's proxies or keeps cookies: the token is for the named server alone.
"""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from costguard.errors import CostguardError
from costguard_client.answers import unreachable
from costguard_client.calls import Answer, HttpRequest

if TYPE_CHECKING:
    import httpx2


class Transport:
    """Opens one connection for each request, so that threads can share it and no old connection is in the way."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self._host, self._port, self._base, is_secure = _parts(url)
        self._connect = HTTPSConnection if is_secure else HTTPConnection

    def send(self, request: HttpRequest) -> Answer:
        """Raises ServerUnreachable, and AnswerLost where the request may have been carried out."""
        connection = self._connect(self._host, self._port, timeout=self._timeout)
        try:
            connection.connect()
        except (HTTPException, OSError) as error:
            connection.close()
            raise unreachable(self._url, error) from None
        try:
            connection.request(request.method, f"{self._base}{request.target}", request.content, dict(request.headers))
            answer = connection.getresponse()
            return Answer(answer.status, answer.reason, answer.read(), answer.getheader("Retry-After"))
        except (HTTPException, OSError) as error:
            raise unreachable(self._url, error, is_sent=True) from None
        finally:
            connection.close()


class AsyncTransport:
    """Connections are kept for the next request."""

    def __init__(self, url: str, timeout: float) -> None:
        import ssl  # only here: commands need neither, and start sooner

        import httpx2

        self._url = url
        _parts(url)
        self._http: httpx2.AsyncClient = httpx2.AsyncClient(
            timeout=timeout, follow_redirects=False, trust_env=False, verify=ssl.create_default_context()
        )
        self._before_sending = (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.PoolTimeout,
            httpx2.UnsupportedProtocol,
        )
        self._errors = (httpx2.HTTPError,)

    async def send(self, request: HttpRequest) -> Answer:
        """Raises ServerUnreachable, and AnswerLost where the request may have been carried out."""
        content = request.content.read() if hasattr(request.content, "read") else request.content
        try:
            answer = await self._http.request(
                request.method, f"{self._url}{request.target}", content=content, headers=dict(request.headers)
            )
        except self._before_sending as error:
            raise unreachable(self._url, error) from None
        except self._errors as error:
            raise unreachable(self._url, error, is_sent=True) from None
        return Answer(answer.status_code, answer.reason_phrase, answer.content, answer.headers.get("Retry-After"))

    async def close(self) -> None:
        await self._http.aclose()


def _parts(url: str) -> tuple[str, int | None, str, bool]:
    """Host, port, path, and whether it is HTTPS. Raises CostguardError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or parts.scheme not in {"http", "https"}:
        raise CostguardError(f"{url!r} is not an address of a server.", "Give one like http://127.0.0.1:8765.")
    return host, port, parts.path, parts.scheme == "https"
