"""JSON over HTTP from those who vouch for people: one try, bounded in time and size, no redirects."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson
import requests
import structlog
import urllib3

from costguard.errors import SignInUnavailable

_TIMEOUT_S = 5.0
_LARGEST = 1 << 20  # bytes; keys and documents are a few kilobytes
_CHUNK = 1 << 16
_HEADERS = {"Accept": "application/json", "User-Agent": "costguard"}

log = structlog.get_logger(__name__)


def get(url: str, what: str, *, bearer: str = "", timeout_s: float = _TIMEOUT_S) -> dict[str, Any]:
    """The JSON object at this address. Raises SignInUnavailable: `what` is not to be had."""
    status, answer = _ask("GET", url, what, timeout_s, {"Authorization": f"Bearer {bearer}"} if bearer else {})
    if status != 200 or answer is None:
        raise unavailable(what, url, f"it answers {status}" if status != 200 else "the answer is no JSON object")
    return answer


def post(
    url: str, what: str, form: Mapping[str, str], auth: tuple[str, str] | None, *, timeout_s: float = _TIMEOUT_S
) -> tuple[int, dict[str, Any]]:
    """The status and the JSON object that answer a form; an empty object where the answer is none."""
    status, answer = _ask("POST", url, what, timeout_s, {}, form, auth)
    if status >= 500:
        raise unavailable(what, url, f"it answers {status}")
    return status, answer or {}


def unavailable(what: str, url: str, why: str) -> SignInUnavailable:
    log.warning("sign_in_cannot_be_checked", what=what, url=url, error=why)
    return SignInUnavailable(f"{what} cannot be had: {why}.", "Try again in a minute; the server's log says more.")


def _ask(
    method: str,
    url: str,
    what: str,
    timeout_s: float,
    headers: Mapping[str, str],
    form: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> tuple[int, dict[str, Any] | None]:
    end = time.monotonic() + timeout_s
    body = bytearray()
    try:
        with requests.request(
            method,
            url,
            data=form,
            auth=auth or _as_it_is,
            headers={**_HEADERS, **headers},
            timeout=timeout_s,
            stream=True,
            allow_redirects=False,  # codes and secrets are for the address that was named
        ) as response:
            # requests' timeout starts again with every packet: a trickle would hold a request of ours for ever.
            while chunk := response.raw.read1(_CHUNK, decode_content=True):
                body += chunk
                if len(body) > _LARGEST or time.monotonic() > end:
                    raise unavailable(what, url, "the answer is too long or too slow")
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise unavailable(what, url, f"there is no answer ({type(error).__name__})") from error
    try:
        answer = orjson.loads(bytes(body))
    except orjson.JSONDecodeError:
        answer = None
    return response.status_code, answer if isinstance(answer, dict) else None


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Without this, a .netrc of the machine's would put its own password into our requests."""
    return request
