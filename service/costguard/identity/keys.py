"""An identity provider's public keys: fetched when needed, and kept while the provider cannot be reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import orjson
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from costguard.errors import SignInRefused, SignInUnavailable

if TYPE_CHECKING:
    import requests

_TIMEOUT_S = 5.0
_LARGEST = 1 << 20  # bytes; keys and documents are a few kilobytes
_CHUNK = 1 << 16
_HEADERS = {"Accept": "application/json", "User-Agent": "costguard"}


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
    structlog.get_logger(__name__).warning("sign_in_cannot_be_checked", what=what, url=url, error=why)
    message = f"{what} cannot be had from {urlsplit(url).hostname}: {why}."
    return SignInUnavailable(message, "Try again in a minute; the server's log says more.")


def _ask(
    method: str,
    url: str,
    what: str,
    timeout_s: float,
    headers: Mapping[str, str],
    form: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> tuple[int, dict[str, Any] | None]:
    # Only here: most processes never ask a provider, and to load it takes a tenth of a second and 3 MB.
    import requests
    import urllib3

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
    """Leaves a request as it is: otherwise a .netrc of the machine's would put its own password into our requests."""
    return request


Key = ECKey | RSAKey

_OLD = timedelta(hours=1)
# The least time between two fetches, whatever keys are asked for.
_AGAIN = timedelta(minutes=1)
_AGAIN_AFTER_FAILURE = timedelta(seconds=10)
_KINDS: Mapping[str, type[ECKey] | type[RSAKey]] = {"EC": ECKey, "RSA": RSAKey}

log = structlog.get_logger(__name__)


class TimeSource(Protocol):
    def now(self) -> datetime: ...


class Keys:
    """`fetch` gives a JSON Web Key Set, and raises SignInRefused.

    Those that were fetched are good until a fetch succeeds that lacks them. A key that is unknown is looked for
    at most once a minute: made-up key ids cause no traffic.
    """

    def __init__(self, fetch: Callable[[], Mapping[str, Any]], clock: TimeSource) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Sequence[Key] = ()
        self._tried_at: datetime | None = None
        self._trouble: SignInRefused | None = None  # of the last try
        self._fetched_at: datetime | None = None

    def find(self, kid: str | None, kind: str) -> Key | None:
        """The key of this name and kind ("EC", "RSA"); without a name the only one of its kind.

        Raises SignInRefused when there are no keys yet, and none can be had.
        """
        if self._are_old and self._lock.acquire(blocking=not self._keys):
            try:
                self._refresh()
            finally:
                self._lock.release()
        key = self._named(kid, kind)
        if key is None:
            with self._lock:
                self._refresh()
            key = self._named(kid, kind)
        return key

    @property
    def _are_old(self) -> bool:
        return self._fetched_at is None or self._clock.now() - self._fetched_at >= _OLD

    def _named(self, kid: str | None, kind: str) -> Key | None:
        matching = [key for key in self._keys if key.key_type == kind and kid in (None, key.kid)]
        return matching[0] if len(matching) == 1 else None

    def _refresh(self) -> None:
        now = self._clock.now()
        pause = _AGAIN if self._trouble is None else _AGAIN_AFTER_FAILURE
        if self._tried_at is None or not timedelta() <= now - self._tried_at < pause:
            self._tried_at = now
            try:
                self._keys, self._trouble = _keys_in(self._fetch()), None
                self._fetched_at = now
            except SignInRefused as error:
                self._trouble = error
        if self._trouble is not None and not self._keys:
            raise type(self._trouble)(self._trouble.message, self._trouble.what_next)


def _keys_in(document: Mapping[str, Any]) -> Sequence[Key]:
    """Returns the keys that signatures can be checked by; one that cannot be read spoils none of the others."""
    keys: list[Key] = []
    given = document.get("keys")
    for entry in given if isinstance(given, list) else []:
        kind = _KINDS.get(str(entry.get("kty"))) if isinstance(entry, dict) else None
        if kind is None or entry.get("use", "sig") != "sig":
            continue
        try:
            keys.append(kind.import_key(entry))
        except (JoseError, ValueError, TypeError) as error:
            log.warning("sign_in_key_unreadable", error=type(error).__name__)
    return keys
