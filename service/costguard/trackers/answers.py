"""Requests to trackers over HTTP, and what their answers mean for the next try."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import httpx2
import orjson

from costguard.errors import TrackerError

_TIMEOUT_S = 10.0
_MOST_WORDS = 300
_LONGEST_ASKED = timedelta(hours=1)  # a tracker that asks for more is tried again all the same
# A server may still be writing what was sent when we stop waiting: it is left time to end that.
_AFTER_SILENCE = timedelta(minutes=1)
_AFTER_REFUSAL = timedelta(minutes=5)  # of the credentials: they have to be changed first


class TrackerHttp:
    """The server of one tracker. No redirects, verified certificates, bounded time. `name` is for people."""

    def __init__(
        self, name: str, url: str, version: str, auth: httpx2.Auth | None = None, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._name = name
        self._url = url
        self._timeout_s = timeout_s
        self._settings: dict[str, Any] = {
            "auth": auth,
            "timeout": timeout_s,
            "headers": {"user-agent": f"Costguard/{version}"},
            "follow_redirects": False,
            # A tracker on this computer is not reached through a proxy.
            "trust_env": not url.startswith("http:"),
        }
        self._client: httpx2.Client | None = None  # made when first needed: reading the certificates takes long

    def get(self, path: str, query: Mapping[str, str]) -> httpx2.Response:
        """Gets a path. Raises as `_send`."""
        return self._send("GET", path, params=dict(query))

    def post(self, path: str, body: Mapping[str, Any]) -> httpx2.Response:
        """Posts to a path. Raises as `_send`."""
        return self._send("POST", path, content=orjson.dumps(body), headers={"content-type": "application/json"})

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _send(self, method: str, path: str, **parts: Any) -> httpx2.Response:
        """An answer below 500 that is about the request. Raises TrackerError for what concerns all runs."""
        if self._client is None:
            self._client = httpx2.Client(**self._settings)
        try:
            response = self._client.request(method, f"{self._url}{path}", **parts)
        except httpx2.TimeoutException as error:
            raise TrackerError(
                f"{self._name} at {self._url} did not answer within {self._timeout_s:g} s.",
                "It is tried again by itself.",
                at_least=_AFTER_SILENCE,
            ) from error
        except httpx2.HTTPError as error:
            raise TrackerError(
                f"{self._name} at {self._url} cannot be reached: {error or type(error).__name__}.",
                "Check url under [trackers], its certificate and the network. It is tried again by itself.",
            ) from error
        status = response.status_code
        if status == 401:
            raise TrackerError(
                f"{self._name} at {self._url} refuses the credentials: {words(response)}",
                "Check the secret for it in the environment, and restart Costguard.",
                at_least=_AFTER_REFUSAL,
            )
        if status == 429 or status >= 500:
            raise TrackerError(
                f"{self._name} at {self._url} answered {status}: {words(response)}",
                "It is tried again by itself.",
                at_least=_retry_after(response),
            )
        if 300 <= status < 400:
            raise TrackerError(
                f"{self._name} at {self._url} redirects to another address, which is not followed.",
                "Set url under [trackers] to where it moved.",
                at_least=_AFTER_REFUSAL,
            )
        return response

    def json(self, response: httpx2.Response) -> dict[str, Any]:
        """Raises TrackerError where the answer is no JSON object: something else listens there."""
        try:
            answer = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise self.not_there()
        return answer

    def not_there(self) -> TrackerError:
        return TrackerError(
            f"There is no {self._name} server at {self._url}: it answered something else.",
            "Correct url under [trackers], and restart Costguard.",
            at_least=_AFTER_REFUSAL,
        )


def words(response: httpx2.Response) -> str:
    """The error as the tracker words it, short and printable, as one sentence."""
    text = response.text
    try:
        answer = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        answer = None
    if isinstance(answer, dict):
        text = str(answer.get("message") or answer.get("error") or text)
    shown = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())[:_MOST_WORDS]
    return f"{shown.rstrip('.')}." if shown else "it does not say why."


def _retry_after(response: httpx2.Response) -> timedelta:
    """Reads seconds alone, the form that these servers use."""
    given = response.headers.get("retry-after", "").strip()
    seconds = int(given[:6]) if given.isascii() and given.isdecimal() else 0
    return min(timedelta(seconds=seconds), _LONGEST_ASKED)
