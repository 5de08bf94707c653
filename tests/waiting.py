"""Waiting for what other threads and processes bring about, and of which nothing else tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 90


def until(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Fails only after half a minute: a busy machine may take long over anything."""
    pause, ends = threading.Event(), time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < ends, f"it did not come about in {patience_s} s"
        pause.wait(0.01)
