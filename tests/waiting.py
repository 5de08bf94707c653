"""Waiting for what other threads and processes bring about, and of which nothing else tells."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 90


def until(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Fails only after `patience_s` seconds: a busy machine may take long over anything."""
    pause, began = threading.Event(), time.monotonic()
    while not holds():
        waited = time.monotonic() - began
        assert waited < patience_s, f"it did not come about in {patience_s} s"
        # Asking a hundred times a second for long would keep busy what is waited for.
        pause.wait(min(max(0.01, waited / 20), 0.25))


def freeze(pid: int) -> None:
    """Stop a process, and wait until all of its threads stand still.

    Until then it may still take a signal that comes after SIGSTOP: Linux hands out the lowest number first.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _stands_still(pid))


def _stands_still(pid: int) -> bool:
    try:
        states = [
            (task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()
        ]
    except OSError:  # a thread has just ended
        return False
    return all(state in "tT" for state in states)
