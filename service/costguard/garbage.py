"""Delays Python's search for cyclic garbage while much is built that holds none."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_builders = 0


@contextmanager
def not_searched() -> Iterator[None]:
    """Looks for no garbage in this process until the last builder is done; where the search is off, it stays off.

    Parsed JSON makes many objects and no cycles: the search through them took a third of reading a large fleet.
    """
    global _builders
    with _lock:
        was_on = gc.isenabled() or _builders > 0
        if was_on:
            _builders += 1
            gc.disable()
    try:
        yield
    finally:
        if was_on:
            with _lock:
                _builders -= 1
                if not _builders:
                    gc.enable()
