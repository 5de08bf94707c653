"""The driver's library with GPUs of recorded values: C functions that write with NVIDIA's own structures.

Whatever reads it goes through the C calling convention and the memory layout of nvidia-ml-py, which NVIDIA publishes.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char, c_uint, c_ulonglong, c_void_p, cast
from dataclasses import dataclass, field
from typing import Any

import pynvml

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


@dataclass
class FakeGpu:
    """A GPU. None: the driver does not support the value there."""

    uuid: str = "GPU-5c3f6c2e-0f2b-1a0c-9c6b-2c51d4c7a001"
    name: str = "NVIDIA H100 80GB HBM3"
    samples: list[tuple[int, int]] | None = field(default_factory=list)  # (microseconds, percent)
    rates: tuple[int, int] | None = (0, 0)
    memory: tuple[int, int] | None = (1 << 30, 80 << 30)  # used, total
    numbers: dict[str, int] = field(default_factory=dict)  # by call, with its argument: "nvmlDeviceGetClockInfo 1"
    reasons: int | None = 0
    pids: list[int] | None = field(default_factory=list)
    gpm: dict[int, float] | None = None  # the means that the next question gets
    is_lost: bool = False


class FakeNvml:
    """`names` of calls that this driver does not have are missing, as from an older library."""

    def __init__(self, gpus: list[FakeGpu], missing: tuple[str, ...] = ()) -> None:
        self._gpus, self._kept = gpus, []  # type: ignore[var-annotated]
        pointers = {
            "nvmlInit_v2": (self._init,),
            "nvmlInitWithFlags": (self._init_flags, c_uint),
            "nvmlDeviceGetCount_v2": (self._count, c_void_p),
            "nvmlDeviceGetHandleByIndex_v2": (self._handle, c_uint, c_void_p),
            "nvmlDeviceGetName": (lambda *a: self._text("name", *a), c_void_p, c_void_p, c_uint),
            "nvmlDeviceGetUUID": (lambda *a: self._text("uuid", *a), c_void_p, c_void_p, c_uint),
            "nvmlDeviceGetSamples": (
                self._samples, c_void_p, c_uint, c_ulonglong, c_void_p, c_void_p, c_void_p,
            ),
            "nvmlDeviceGetUtilizationRates": (self._rates, c_void_p, c_void_p),
            "nvmlDeviceGetMemoryInfo": (self._memory, c_void_p, c_void_p),
            "nvmlDeviceGetCurrentClocksEventReasons": (self._reasons, c_void_p, c_void_p),
            "nvmlDeviceGetCurrentClocksThrottleReasons": (self._reasons, c_void_p, c_void_p),
            "nvmlDeviceGetComputeRunningProcesses_v3": (self._processes, c_void_p, c_void_p, c_void_p),
            "nvmlGpmQueryDeviceSupport": (self._support, c_void_p, c_void_p),
            "nvmlGpmSampleAlloc": (self._alloc, c_void_p),
            "nvmlGpmSampleFree": (lambda _: 0, c_void_p),
            "nvmlGpmSampleGet": (lambda device, _: self._lost(device), c_void_p, c_void_p),
            "nvmlGpmMetricsGet": (self._metrics, c_void_p),
        }  # fmt: skip
        for name, (function, *kinds) in pointers.items():
            if name not in missing:
                setattr(self, name, CFUNCTYPE(c_uint, *kinds)(function))  # type: ignore[arg-type]
        for call in ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit"):
            setattr(self, call, CFUNCTYPE(c_uint, c_void_p, c_void_p)(self._number(call)))
        for call in (
            "nvmlDeviceGetTemperature",
            "nvmlDeviceGetClockInfo",
            "nvmlDeviceGetMaxClockInfo",
            "nvmlDeviceGetPcieThroughput",
        ):
            setattr(self, call, CFUNCTYPE(c_uint, c_void_p, c_uint, c_void_p)(self._number(call)))

    def _gpu(self, device: int) -> FakeGpu:
        return self._gpus[device - 1]

    def _lost(self, device: int) -> int:
        return int(pynvml.NVML_ERROR_GPU_IS_LOST) if self._gpu(device).is_lost else 0

    def _init(self) -> int:
        return 0

    def _init_flags(self, _: int) -> int:
        return 0

    def _count(self, answer: int) -> int:
        cast(answer, POINTER(c_uint))[0] = len(self._gpus)
        return 0

    def _handle(self, index: int, answer: int) -> int:
        cast(answer, POINTER(c_void_p))[0] = index + 1
        return 0

    def _text(self, name: str, device: int, answer: int, most: int) -> int:
        words = getattr(self._gpu(device), name).encode() + b"\0"
        assert len(words) <= most
        cast(answer, POINTER(c_char * len(words)))[0].raw = words
        return self._lost(device)

    def _number(self, call: str) -> Callable[..., int]:
        def answer(device: int, *arguments: int) -> int:
            *chosen, place = arguments
            value = self._gpu(device).numbers.get(" ".join([call, *map(str, chosen)]))
            if self._lost(device) or value is None:
                return self._lost(device) or NOT_SUPPORTED
            cast(place, POINTER(c_uint))[0] = value
            return 0

        return answer

    def _samples(self, device: int, kind: int, since: int, value_kind: int, count: int, buffer: int | None) -> int:
        assert kind == pynvml.NVML_GPU_UTILIZATION_SAMPLES
        samples = self._gpu(device).samples
        if self._lost(device) or samples is None:
            return self._lost(device) or NOT_SUPPORTED
        new = [one for one in samples if one[0] > since]
        if not new:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        cast(value_kind, POINTER(c_uint))[0] = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        cast(count, POINTER(c_uint))[0] = len(new)
        if buffer is None:
            return 0
        for place, (at, value) in enumerate(new):
            sample = cast(buffer, POINTER(pynvml.c_nvmlSample_t))[place]
            sample.timeStamp, sample.sampleValue.uiVal = at, value
        return 0

    def _rates(self, device: int, answer: int) -> int:
        rates = self._gpu(device).rates
        if self._lost(device) or rates is None:
            return self._lost(device) or NOT_SUPPORTED
        structure = cast(answer, POINTER(pynvml.c_nvmlUtilization_t))[0]
        structure.gpu, structure.memory = rates
        return 0

    def _memory(self, device: int, answer: int) -> int:
        memory = self._gpu(device).memory
        if self._lost(device) or memory is None:
            return self._lost(device) or NOT_SUPPORTED
        structure = cast(answer, POINTER(pynvml.c_nvmlMemory_t))[0]
        structure.used, structure.total = memory
        structure.free = memory[1] - memory[0]
        return 0

    def _reasons(self, device: int, answer: int) -> int:
        reasons = self._gpu(device).reasons
        if self._lost(device) or reasons is None:
            return self._lost(device) or NOT_SUPPORTED
        cast(answer, POINTER(c_ulonglong))[0] = reasons
        return 0

    def _processes(self, device: int, count: int, buffer: int | None) -> int:
        pids = self._gpu(device).pids
        if self._lost(device) or pids is None:
            return self._lost(device) or NOT_SUPPORTED
        if not pids:
            cast(count, POINTER(c_uint))[0] = 0
            return 0
        if buffer is None:
            cast(count, POINTER(c_uint))[0] = len(pids)
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        cast(count, POINTER(c_uint))[0] = len(pids)
        for place, pid in enumerate(pids):
            cast(buffer, POINTER(pynvml.c_nvmlProcessInfo_v3_t))[place].pid = pid
        return 0

    def _support(self, device: int, answer: int) -> int:
        structure = cast(answer, POINTER(pynvml.c_nvmlGpmSupport_t))[0]
        assert structure.version == pynvml.NVML_GPM_SUPPORT_VERSION
        structure.isSupportedDevice = int(self._gpu(device).gpm is not None)
        return self._lost(device)

    def _alloc(self, answer: int) -> int:
        self._kept.append(answer)
        cast(answer, POINTER(c_void_p))[0] = len(self._kept)
        return 0

    def _metrics(self, request: int) -> int:
        structure: Any = cast(request, POINTER(pynvml.c_nvmlGpmMetricsGet_t))[0]
        assert structure.version == pynvml.NVML_GPM_METRICS_GET_VERSION
        values = self._gpus[0].gpm or {}
        for place in range(structure.numMetrics):
            metric = structure.metrics[place]
            metric.nvmlReturn = 0 if metric.metricId in values else NOT_SUPPORTED
            metric.value = values.get(metric.metricId, 0.0)
        return 0
