"""The stand-in's meter: how long it has computed, in a file that it and its watcher map."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

_COUNTERS = struct.Struct("<qqq")  # nanoseconds busy, since when it is busy (0: it is idle), kernels


class Counters:
    """Counters of how long the stand-in has computed, in a file that others map too."""

    def __init__(self, path: Path, *, is_made: bool = False) -> None:
        if is_made:
            path.write_bytes(bytes(_COUNTERS.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _COUNTERS.size)

    def begin(self) -> None:
        busy, _, kernels = _COUNTERS.unpack(self._memory[:])
        self._memory[:] = _COUNTERS.pack(busy, time.monotonic_ns(), kernels)

    def end(self) -> None:
        busy, since, kernels = _COUNTERS.unpack(self._memory[:])
        self._memory[:] = _COUNTERS.pack(busy + time.monotonic_ns() - since, 0, kernels + 1)

    def busy_s(self) -> float:
        busy, since, _ = _COUNTERS.unpack(self._memory[:])
        return float(busy + (time.monotonic_ns() - since if since else 0)) / 1e9
