"""Logs what clients can bring about at will: the first of a kind at once, and then a count each minute."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog

log = structlog.get_logger(__name__)

EVERY_S = 60.0


class SparseLog:
    """The first of a kind is logged at once; those of the next minute are counted and logged as one line.

    Safe to use from any thread. Call `flush` now and then, so that the last count is logged too.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._logged_at: dict[str, float] = {}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def warn(self, event: str, **details: Any) -> None:
        """`event` is the kind: one of the few that the code names, never text that came from outside."""
        if count := self.is_due(event):
            log.warning(event, count=count, **details)

    def is_due(self, kind: str) -> int:
        """Counts one more; how many to log about now, 0 while it is too early."""
        with self._lock:
            self._counts[kind] += 1
            return self._due(kind)

    def flush(self) -> None:
        """Logs the counts that are a minute old."""
        with self._lock:
            due = {event: count for event in list(self._counts) if (count := self._due(event))}
        for event, count in due.items():
            log.warning(event, count=count)

    def _due(self, event: str) -> int:
        now, count = self._monotonic(), self._counts[event]
        if not count or now - self._logged_at.get(event, float("-inf")) < EVERY_S:
            return 0
        self._logged_at[event] = now
        del self._counts[event]
        return count


class SparseWarnings(logging.Filter):
    """Lets each warning of a library through once a minute; errors pass."""

    def __init__(self, sparse: SparseLog) -> None:
        super().__init__()
        self._sparse = sparse

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING or self._sparse.is_due(str(record.msg)) > 0
