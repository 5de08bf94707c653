"""Values of the metadata server that change while the VM runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .calls import Metadata, Trouble

HELD_S = 60


def watch(metadata: Metadata, key: str, act: Callable[[str], None], over: threading.Event, retry_s: float) -> None:
    """Acts on the first value and on every other one after it. The server holds each request until there is one."""
    etag, seen = "0", ""
    while not over.is_set():
        asked_at = time.monotonic()
        try:
            value, etag = metadata.get(key, etag, HELD_S)
        except Trouble:
            over.wait(retry_s)
            continue
        if value.strip() != seen:
            seen = value.strip()
            act(seen)
        elif time.monotonic() - asked_at < 0.1:  # a server that holds nothing must not be asked without end
            over.wait(retry_s)
