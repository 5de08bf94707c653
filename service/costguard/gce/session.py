"""Requests for JSON: what is read is asked a few times under one deadline, and a change once."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from costguard.errors import BadAnswer, CloudError
from costguard.gce.errors import COMPUTE, NoAnswer, Service, from_exception, from_status, is_worth_retrying, owner_text
from costguard.model.backoff import Backoff

if TYPE_CHECKING:
    import requests
    from requests.adapters import BaseAdapter

GOOGLE = f"https://{COMPUTE.host}"
# A scope only bounds what a token may be used for. What it may do is in the roles of its account, and there the right
# to stop VMs is a role of its own.
_SCOPES = (
    "https://www.googleapis.com/auth/compute",
    "https://www.googleapis.com/auth/monitoring.read",
)
Params = Mapping[str, str | Sequence[str]]
Loads = Callable[[bytes], Any]
"""Makes a value of the JSON in an answer's body. Raises orjson.JSONDecodeError."""

_TRIES = 4
_BACKOFF = Backoff(timedelta(seconds=0.5), timedelta(seconds=15), factor=4)
_CHUNK = 1 << 16
# Google compresses only for clients that also say "gzip" in their name.
_HEADERS = {"User-Agent": "costguard (gzip)", "Accept": "application/json"}


class _NoJson(BadAnswer):
    """A 200 whose body is no JSON object."""


class Deadline:
    """The moment by which all requests of one look must be over. Counts them. Thread-safe."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._end = monotonic() + seconds
        self._lock = threading.Lock()
        self.requests = 0  # that were sent, those that failed among them

    def sent(self) -> None:
        with self._lock:
            self.requests += 1

    @property
    def left_s(self) -> float:
        return self._end - self._monotonic()


class Http:
    """Thread-safe: sessions are pooled, and one is used by one thread at a time.

    Without an endpoint it talks to Google with the machine's default credentials; with one it sends
    credentials only if they are given. `wait(seconds)` returns True when the wait was cut short for good.
    """

    def __init__(
        self,
        endpoint: str | None,
        *,
        credentials: Any,
        timeout_s: float,
        wait: Callable[[float], bool],
        adapter: BaseAdapter | None = None,
        scopes: Sequence[str] = _SCOPES,
    ) -> None:
        self.base = (endpoint or GOOGLE).rstrip("/")
        self._is_google = endpoint is None
        self.is_authorised = endpoint is None or credentials is not None
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._wait = wait
        self._scopes = scopes
        self.adapter = adapter
        self._idle: queue.LifoQueue[requests.Session] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._closed = False
        self.date = ""  # of the last answer, as its header says it

    @property
    def account(self) -> str:
        """The service account we are, if the credentials tell."""
        name = getattr(self._credentials, "service_account_email", "") or ""
        return name if "@" in name else ""

    def close(self) -> None:
        """Close the idle connections; one still in use closes when it is let go."""
        self._closed = True
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def get_json(
        self,
        path: str,
        params: Params,
        *,
        project: str,
        what: str,
        deadline: Deadline,
        service: Service = COMPUTE,
        loads: Loads = orjson.loads,
    ) -> dict[str, Any]:
        """Gets a JSON object. Raises CloudError when it did not come after a few tries, or in time.

        Google's services have hosts of their own; an endpoint that was given serves them all.
        """
        return self._repeated(
            deadline, lambda: self._asked(path, params, project, what, deadline, service, loads=loads)
        )

    def get_once(
        self, path: str, params: Params, *, project: str, what: str, deadline: Deadline, service: Service = COMPUTE
    ) -> dict[str, Any]:
        """Gets a JSON object like `get_json`, but asks for it once: the next pass asks again."""
        return self._asked(path, params, project, what, deadline, service)

    def ask_json(
        self, path: str, body: Mapping[str, Any], *, project: str, what: str, deadline: Deadline, service: Service
    ) -> dict[str, Any]:
        """Reads what Google answers to a POST that changes nothing; asked a few times like `get_json`."""
        return self._repeated(deadline, lambda: self._asked(path, {}, project, what, deadline, service, body))

    def _repeated(self, deadline: Deadline, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        tries = 0
        while True:
            try:
                return ask()
            except CloudError as error:
                tries += 1
                pause = _BACKOFF.after(tries, jitter=random.uniform(0.5, 1.0)).total_seconds()
                pause = max(pause, error.retry_after)
                if tries >= _TRIES or not is_worth_retrying(error) or pause >= deadline.left_s or self._wait(pause):
                    raise

    def post_json(
        self, path: str, body: Mapping[str, Any], *, project: str, what: str, deadline: Deadline, service: Service
    ) -> dict[str, Any]:
        """Asks once for a change. CloudUnavailable: it may have begun; after any other CloudError it has not."""
        try:
            return self._asked(path, {}, project, what, deadline, service, body)
        except _NoJson as error:
            raise NoAnswer(f"{error.message.rstrip('.')}, so it may have begun.") from error

    def _asked(
        self,
        path: str,
        params: Params,
        project: str,
        what: str,
        deadline: Deadline,
        service: Service,
        sent: Mapping[str, Any] | None = None,
        loads: Loads = orjson.loads,
    ) -> dict[str, Any]:
        import requests
        import urllib3
        from google.auth.exceptions import GoogleAuthError

        base = f"https://{service.host}" if self._is_google else self.base
        try:
            status, body, retry_after = self._fetch(f"{base}{path}", params, what, deadline, sent)
        except (requests.RequestException, urllib3.exceptions.HTTPError, GoogleAuthError, OSError) as error:
            raise from_exception(error, project, what, self.account, service) from error
        if status != 200:
            refused = from_status(status, body, project, what, self.account, service)
            refused.retry_after = retry_after
            raise refused
        try:
            answer = loads(body)
        except orjson.JSONDecodeError as error:
            raise _NoJson(f"{what} of {owner_text(project)}: the answer is not JSON ({error}).") from error
        if not isinstance(answer, dict):
            raise _NoJson(f"{what} of {owner_text(project)}: the answer is not a JSON object.")
        return answer

    def _fetch(
        self, url: str, params: Params, what: str, deadline: Deadline, sent: Mapping[str, Any] | None
    ) -> tuple[int, bytes, float]:
        """Status, body, and the seconds of Retry-After. `sent` is the body of a POST; None: a GET."""
        if deadline.left_s <= 0:
            raise NoAnswer(f"{what}: the time for this look was used up before the request.", _SLOW)
        timeout = min(self._timeout_s, deadline.left_s)
        given: dict[str, Any] = {"params": params, "timeout": timeout, "stream": True, "allow_redirects": False}
        deadline.sent()
        with (
            self._session() as session,
            session.get(url, **given) if sent is None else session.post(url, json=sent, **given) as response,
        ):
            self.date = response.headers.get("Date", "")
            body = bytearray()
            # requests' timeout starts again with every packet: a trickle would hold us for ever.
            while chunk := response.raw.read1(_CHUNK, decode_content=True):
                body += chunk
                if deadline.left_s <= 0:
                    raise NoAnswer(f"{what}: the answer came too slowly and was given up.", _SLOW)
            return response.status_code, bytes(body), _retry_after(response.headers.get("Retry-After", ""))

    @contextmanager
    def _session(self) -> Iterator[requests.Session]:
        try:
            session = self._idle.get_nowait()
        except queue.Empty:
            session = self._new_session()
        try:
            yield session
        finally:
            if self._closed:
                session.close()
            else:
                self._idle.put(session)

    def _new_session(self) -> requests.Session:
        import requests

        if self.is_authorised:
            from google.auth.transport import requests as authorised

            session: requests.Session = authorised.AuthorizedSession(self.google_credentials())  # type: ignore[no-untyped-call]
        else:
            session = requests.Session()
            # Neither .netrc nor a proxy may add what we promise not to send.
            session.trust_env = False
        session.headers.update(_HEADERS)
        if self.adapter is not None:
            session.mount(self.base, self.adapter)
        return session

    def google_credentials(self) -> Any:
        """The given credentials, or the machine's default ones. Raises what google.auth raises."""
        with self._lock:
            if self._credentials is None:
                import google.auth

                self._credentials, _ = google.auth.default(scopes=self._scopes)
            return self._credentials


def _retry_after(text: str) -> float:
    """Google says it in seconds; anything else counts as none."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0.0


_SLOW = "Raise the time allowed for one look, or check the network."
