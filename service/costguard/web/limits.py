"""Limits: of requests a minute, and of a request's body."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Mapping

from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from costguard_vm.model.code_archive import MOST_UNPACKED

# Of a body. A job has at most 200 KiB as JSON and 20,000 characters of changes to its code; a sweep has its parameters
# as well. The event loop reads bodies, and one of small parts takes it 0.2 s for each MiB.
MOST_BYTES = 512 << 10
MOST_CODE_BYTES = MOST_UNPACKED  # of an archive of code, where nothing in it can be packed
_OF_CODE = re.compile(r"/api/v1/code/[^/]+")


def most_bytes(scope: Scope) -> int:
    """Returns the most bytes that the body of this request may have."""
    is_code = scope["method"] == "PUT" and _OF_CODE.fullmatch(scope["path"]) is not None
    return MOST_CODE_BYTES if is_code else MOST_BYTES


class BodyLimitMiddleware:
    """Counts bodies while they are read: not all of them say in advance how long they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await RequestBodyLimitMiddleware(self._app, most_bytes(scope))(scope, receive, send)


_MINUTE = 60.0
_MOST_KEPT = 10_000


class TokenBucket:
    """`per_minute` requests a minute for each key, of which a quarter may come at once.

    What is kept of a key is the moment at which its bucket will be full again: who has not asked for that long is
    as good as new, and is forgotten.
    """

    def __init__(self, per_minute: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._every = _MINUTE / per_minute
        self._burst = max(1, per_minute // 4)
        self._monotonic = monotonic
        self._full_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, key: str, now: float) -> float | None:
        """Takes from the bucket. None: the request may go on, and is counted; else the seconds until it may."""
        with self._lock:
            if len(self._full_at) > _MOST_KEPT:
                self._full_at = {key_: at for key_, at in self._full_at.items() if at > now}
            full_at = max(self._full_at.get(key, now), now) + self._every
            wait = full_at - now - self._burst * self._every
            if wait > self._every * 1e-6:  # less than that is what floats round
                return wait
            self._full_at[key] = full_at
            return None

    def refusal(self, key: str) -> Mapping[str, str] | None:
        """The headers that say when to retry; None: the request may go on, and is counted."""
        wait = self.take(key, self._monotonic())
        if wait is None:
            return None
        seconds = str(math.ceil(wait))
        window = math.ceil(self._burst * self._every)
        return {
            "Retry-After": seconds,
            "RateLimit-Policy": f'"requests";q={self._burst};w={window}',
            "RateLimit": f'"requests";r=0;t={seconds}',
        }
