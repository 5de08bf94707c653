"""NVIDIA's management library through ctypes: the few of its calls that the agent needs.

NVIDIA's own binding is one file of 332 kB (nvidia-ml-py 13.615.71, BSD); to import it costs 17 MB of memory and 80 ms,
where the whole agent may cost 40 MB. The layouts and numbers here are compared with that file, call by call, in
tests/agent/test_nvml.py. A value that the driver does not give is None, never 0.
"""

from __future__ import annotations

import ctypes
import os
import runpy
from ctypes import byref, c_char, c_char_p, c_double, c_longlong, c_uint, c_ulong, c_ulonglong, c_void_p
from types import SimpleNamespace
from typing import Any, NamedTuple

LIBRARY = "libnvidia-ml.so.1"  # of the driver
STAND_IN = "COSTGUARD_NVML"  # names a Python file with the same functions, in VMs of the simulated cloud
SUCCESS, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND, GPU_IS_LOST = 0, 7, 13, 15
GPU_SAMPLES = 1  # NVML_GPU_UTILIZATION_SAMPLES
SM_CLOCK, TEMPERATURE, PCIE_OUT, PCIE_IN = 1, 0, 0, 1  # PCIe as the GPU sees it: it sends, it receives
CLOCK_REASONS = {  # nvmlClocksEventReasons
    "idle": 0x1,
    "application_clocks": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
    "display_clocks": 0x100,
}
# NVML_GPM_METRIC_: percent, and MiB/s for the last two.
SM_ACTIVE, SM_OCCUPANCY, TENSOR, DRAM, FP32, NVLINK_IN, NVLINK_OUT = METRICS = (2, 3, 5, 10, 12, 60, 61)


class NvmlValue(ctypes.Union):
    _fields_ = [
        ("dVal", c_double),
        ("uiVal", c_uint),
        ("ulVal", c_ulong),
        ("ullVal", c_ulonglong),
        ("sllVal", c_longlong),
        ("siVal", ctypes.c_int),
        ("usVal", ctypes.c_ushort),
    ]


class NvmlSample(ctypes.Structure):
    _fields_ = [("timeStamp", c_ulonglong), ("sampleValue", NvmlValue)]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class NvmlMemory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    ]


class MetricInfo(ctypes.Structure):
    _fields_ = [("shortName", c_char_p), ("longName", c_char_p), ("unit", c_char_p)]


class GpmMetric(ctypes.Structure):
    _fields_ = [
        ("metricId", c_uint),
        ("nvmlReturn", c_uint),
        ("value", c_double),
        ("metricInfo", MetricInfo),
    ]


class GpmMetricsGet(ctypes.Structure):
    """The driver reads and writes `numMetrics` entries; the array of the header is longer in every release."""

    _fields_ = [
        ("version", c_uint),
        ("numMetrics", c_uint),
        ("sample1", c_void_p),
        ("sample2", c_void_p),
        ("metrics", GpmMetric * 512),
    ]


class GpmSupport(ctypes.Structure):
    _fields_ = [("version", c_uint), ("isSupportedDevice", c_uint)]


_VALUES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


class UtilisationSample(NamedTuple):
    """`at_us` is by a clock of the driver's; only differences mean something. `busy` is from 0 to 1."""

    at_us: int
    busy: float


class Nvml:
    """`library` is the loaded libnvidia-ml. Raises OSError where the driver does not answer."""

    def __init__(self, library: Any) -> None:
        self._library = library
        code = self._call("nvmlInit_v2")
        if code != SUCCESS:
            raise OSError(f"nvmlInit_v2 ended with {code}")

    @classmethod
    def load(cls) -> Nvml | None:
        """Loads NVML; None where there is no driver, or it does not answer."""
        stand_in = os.environ.get(STAND_IN)
        try:
            return cls(SimpleNamespace(**runpy.run_path(stand_in)) if stand_in else ctypes.CDLL(LIBRARY))
        except OSError:
            return None

    def devices(self) -> list[c_void_p]:
        count, handles = c_uint(), []
        if self._call("nvmlDeviceGetCount_v2", byref(count)) != SUCCESS:
            raise OSError("nvmlDeviceGetCount_v2 failed")
        for index in range(count.value):
            handle = c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
            handles.append(handle)
        return handles

    def text(self, call: str, device: c_void_p) -> str | None:
        """Calls a function that gives a text: nvmlDeviceGetName, nvmlDeviceGetUUID."""
        answer = (c_char * 96)()
        code = self._call(call, device, answer, c_uint(96))
        return answer.value.decode("utf-8", "replace") if code == SUCCESS else None

    def number(self, call: str, device: c_void_p, *arguments: int) -> int | None:
        """Calls a function that gives one unsigned int."""
        answer = c_uint()
        code = self._call(call, device, *map(c_uint, arguments), byref(answer))
        return answer.value if code == SUCCESS else None

    def is_lost(self, device: c_void_p) -> bool:
        """Says whether it has fallen off its bus."""
        return self._call("nvmlDeviceGetTemperature", device, c_uint(TEMPERATURE), byref(c_uint())) == GPU_IS_LOST

    def utilisation(self, device: c_void_p) -> tuple[float, float] | None:
        """The shares of the driver's last sample period in which a kernel ran, and in which memory was used."""
        rates = Utilization()
        if self._call("nvmlDeviceGetUtilizationRates", device, byref(rates)) != SUCCESS:
            return None
        return (rates.gpu / 100, rates.memory / 100) if rates.gpu <= 100 and rates.memory <= 100 else None

    def samples(self, device: c_void_p, since_us: int) -> list[UtilisationSample]:
        """The driver's samples after `since_us`. None are kept while a GPU is idle: ask `utilisation` then.

        Illegal values are left out, as nvtop does (Syllo/nvtop, issue 110); a buffer that runs dry is seen in
        polarsignals/gpu-metrics-agent, pull request 37.
        """
        kind, count = c_uint(), c_uint()
        arguments = (device, c_uint(GPU_SAMPLES), c_ulonglong(since_us), byref(kind), byref(count))
        if self._call("nvmlDeviceGetSamples", *arguments, None) != SUCCESS or not 0 < count.value <= 10_000:
            return []
        buffer = (NvmlSample * count.value)()
        if self._call("nvmlDeviceGetSamples", *arguments, buffer) != SUCCESS or kind.value not in _VALUES:
            return []
        values = [(one.timeStamp, getattr(one.sampleValue, _VALUES[kind.value])) for one in buffer[: count.value]]
        return sorted(UtilisationSample(at, value / 100) for at, value in values if at > since_us and 0 <= value <= 100)

    def memory(self, device: c_void_p) -> tuple[int, int] | None:
        """Bytes used and in all."""
        memory = NvmlMemory()
        code = self._call("nvmlDeviceGetMemoryInfo", device, byref(memory))
        return (memory.used, memory.total) if code == SUCCESS and memory.total else None

    def clock_reasons(self, device: c_void_p) -> int | None:
        """The bits of CLOCK_REASONS. Drivers before 535 know the call by its older name."""
        answer = c_ulonglong()
        for call in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            code = self._call(call, device, byref(answer))
            if code != FUNCTION_NOT_FOUND:
                break
        return answer.value if code == SUCCESS else None

    def processes(self, device: c_void_p) -> list[int] | None:
        """The processes that compute on it, as the VM numbers them."""
        for call in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            count = c_uint(0)
            code = self._call(call, device, byref(count), None)
            if code == FUNCTION_NOT_FOUND:
                continue
            if code == SUCCESS:
                return []
            if code != INSUFFICIENT_SIZE:
                return None
            count.value = 2 * count.value + 5
            holders = (ProcessInfo * count.value)()
            code = self._call(call, device, byref(count), holders)
            return [one.pid for one in holders[: count.value]] if code == SUCCESS else None
        return None

    def gpm(self, device: c_void_p) -> Gpm | None:
        """The counters of Hopper and later; None where there are none."""
        support = GpmSupport(version=1)
        code = self._call("nvmlGpmQueryDeviceSupport", device, byref(support))
        return Gpm(self._call, device) if code == SUCCESS and support.isSupportedDevice else None

    def _call(self, name: str, *arguments: Any) -> int:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return FUNCTION_NOT_FOUND
        code: int = function(*arguments)
        return code


class Gpm:
    """Two samples of the hardware's counters give the means between them."""

    def __init__(self, call: Any, device: c_void_p) -> None:
        self._call, self._device = call, device
        self._last: c_void_p | None = None

    def means(self) -> dict[int, float]:
        """Returns means by the numbers of METRICS, since the call before; empty at the first.

        Metrics that fail are left out.
        """
        sample = c_void_p()
        if self._call("nvmlGpmSampleAlloc", byref(sample)) != SUCCESS:
            return {}
        if self._call("nvmlGpmSampleGet", self._device, sample) != SUCCESS:
            self._call("nvmlGpmSampleFree", sample)
            return {}
        last, self._last = self._last, sample
        if last is None:
            return {}
        request = GpmMetricsGet(version=1, numMetrics=len(METRICS), sample1=last.value, sample2=sample.value)
        for place, metric in enumerate(METRICS):
            request.metrics[place].metricId = metric
        code = self._call("nvmlGpmMetricsGet", byref(request))
        self._call("nvmlGpmSampleFree", last)
        results = request.metrics[: len(METRICS)] if code == SUCCESS else []
        return {one.metricId: one.value for one in results if one.nvmlReturn == SUCCESS and one.value >= 0}
