"""NVIDIA's management library in a VM with simulated GPUs: the agent loads this file in place of the driver's.

Standard library only: it runs in the agent. COSTGUARD_GPUS holds the GPUs' name, their number and the file in which a
training counts for how many seconds it computed. What is not simulated, such as power, has no function here.
"""

from __future__ import annotations

import os
import struct
import time
from typing import Any

_SUCCESS = 0
_NAME, _COUNT, _FILE = (os.environ.get("COSTGUARD_GPUS") or "GPU|0|").split("|")


class _Use:
    """The share of the time since the last look in which a kernel ran, in percent."""

    def __init__(self) -> None:
        self._seen = self._counted()

    def percent(self) -> int:
        (before_s, before_at), self._seen = self._seen, self._counted()
        busy_s, at = self._seen
        return round(100 * min(1.0, max(0.0, busy_s - before_s) / max(1e-9, at - before_at)))

    def _counted(self) -> tuple[float, float]:
        try:
            with open(_FILE, "rb") as file:
                (busy_s,) = struct.unpack("d", file.read(8))
        except (OSError, struct.error):  # nothing has computed yet
            busy_s = 0.0
        return busy_s, time.monotonic()


_uses = [_Use() for _ in range(int(_COUNT))]


def nvmlInit_v2() -> int:
    return _SUCCESS


def nvmlDeviceGetCount_v2(count: Any) -> int:
    count._obj.value = len(_uses)
    return _SUCCESS


def nvmlDeviceGetHandleByIndex_v2(index: Any, handle: Any) -> int:
    handle._obj.value = index.value + 1
    return _SUCCESS


def nvmlDeviceGetName(_device: Any, text: Any, _length: Any) -> int:
    text.value = _NAME.encode()
    return _SUCCESS


def nvmlDeviceGetUtilizationRates(device: Any, rates: Any) -> int:
    rates._obj.gpu, rates._obj.memory = _uses[device.value - 1].percent(), 0
    return _SUCCESS
