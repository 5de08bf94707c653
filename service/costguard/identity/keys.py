"""An identity provider's public keys: fetched when needed, and kept while the provider cannot be reached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from costguard.errors import SignInRefused

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
    """Those that signatures can be checked by; one that cannot be read spoils none of the others."""
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
