"""Trouble with a server, and trying again. The runner loads this without all that a call over HTTP needs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Trouble(Exception):
    """A server could not be reached (status 0), or refused."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.may_pass = status in (0, 408, 429) or status >= 500


def patiently(call: Callable[[], T], wait: Callable[[float], object], tries: int, first_s: float) -> T:
    """Repeats a call after passing trouble, with exponential backoff and jitter; `tries` 0: for ever."""
    attempt = 0
    while True:
        try:
            return call()
        except Trouble as trouble:
            attempt += 1
            if not trouble.may_pass or attempt == tries:
                raise
            wait(min(60.0, first_s * 2 ** min(attempt, 10)) * random.uniform(0.5, 1))
