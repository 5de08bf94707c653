"""GPUs, looked at every second in a thread of its own: a call to a GPU that fell off its bus may never return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from costguard_vm.diagnosis.signals import GpuSignals

from . import nvml
from .nvml import CLOCK_REASONS, Gpm, Nvml, UtilisationSample

COUNTERS_S = 10.0  # between two looks at the hardware's counters
MOST_GAP_S = 2.0  # samples further apart than this are no stretch
PIPES = {  # of GPM: percent
    "sm_active": nvml.SM_ACTIVE,
    "sm_occupancy": nvml.SM_OCCUPANCY,
    "tensor_active": nvml.TENSOR,
    "dram_active": nvml.DRAM,
    "fp32_active": nvml.FP32,
}


class _Look(NamedTuple):
    samples: list[UtilisationSample]
    values: dict[str, float]
    reasons: int | None
    pids: list[int] | None


class WatchedGpu:
    """A GPU between two reports."""

    def __init__(self, library: Nvml, number: int, device: Any) -> None:
        self._nvml, self._number, self._device = library, number, device
        self._uuid, self._name = library.text("nvmlDeviceGetUUID", device), library.text("nvmlDeviceGetName", device)
        self._gpm: Gpm | None = library.gpm(device)
        self._seen = (max([one.at_us for one in library.samples(device, 0)], default=0), time.monotonic())
        self._looks: list[_Look] = []
        self._counted = 0.0
        self._last: dict[str, float] = {}
        self._powers: list[float] = []  # the least and the most of all looks
        self.pids: list[int] | None = None

    @property
    def has_counters(self) -> bool:
        return self._gpm is not None

    def look(self) -> None:
        nvml_, device = self._nvml, self._device
        if nvml_.is_lost(device):
            self._last = {}
            return
        seen_us, seen = self._seen
        samples, now = nvml_.samples(device, seen_us), time.monotonic()
        rates = nvml_.utilisation(device)
        if samples:
            self._seen = (samples[-1].at_us, now)
        elif rates is not None:  # while it is idle, the driver keeps none
            samples = [UtilisationSample(seen_us + round((now - seen) * 1e6), rates[0])]
        values: dict[str, float | None] = {
            "copy_active": rates and rates[1],
            "power_w": _scaled(nvml_.number("nvmlDeviceGetPowerUsage", device), 1e-3),
            "power_limit_w": _scaled(nvml_.number("nvmlDeviceGetEnforcedPowerLimit", device), 1e-3),
            "temperature_c": nvml_.number("nvmlDeviceGetTemperature", device, nvml.TEMPERATURE),
            "sm_clock_mhz": nvml_.number("nvmlDeviceGetClockInfo", device, nvml.SM_CLOCK),
            "sm_clock_most_mhz": nvml_.number("nvmlDeviceGetMaxClockInfo", device, nvml.SM_CLOCK),
            "pcie_in_bytes_per_s": _scaled(nvml_.number("nvmlDeviceGetPcieThroughput", device, nvml.PCIE_IN), 1000),
            "pcie_out_bytes_per_s": _scaled(nvml_.number("nvmlDeviceGetPcieThroughput", device, nvml.PCIE_OUT), 1000),
        }
        if (power := values["power_w"]) is not None:
            self._powers = [min([power, *self._powers]), max([power, *self._powers])]
            values["power_least_w"], values["power_most_w"] = self._powers
        memory = nvml_.memory(device)
        if memory is not None:
            values["memory_used_bytes"], values["memory_total_bytes"] = memory
        if self._gpm is not None and time.monotonic() - self._counted >= COUNTERS_S:
            self._counted = time.monotonic()
            values.update(counted(self._gpm.means()))
        self.pids = nvml_.processes(device)
        figures = {name: float(value) for name, value in values.items() if value is not None}
        self._looks.append(_Look(samples, figures, nvml_.clock_reasons(device), self.pids))
        busy = samples[-1].busy if samples else None
        self._last = {**figures, **({} if busy is None else {"busy": busy})}

    def figures(self) -> dict[str, Any]:
        """Returns the figures for heartbeats."""
        used, total = self._last.get("memory_used_bytes"), self._last.get("memory_total_bytes")
        return {
            "index": str(self._number),
            "uuid": self._uuid or "",
            "name": self._name or "",
            "utilisation": self._last.get("busy"),
            "memory_used_bytes": None if used is None else int(used),
            "memory_total_bytes": None if total is None else int(total),
        }

    def report(self, counters: Mapping[str, float]) -> GpuSignals:
        """Summarises the looks since the last report, with DCGM's counters where there are some."""
        looks, self._looks = self._looks, []
        return summary(looks, self._number, self._uuid, self._name, counters)


def summary(
    looks: list[_Look], number: int, uuid: str | None, name: str | None, counters: Mapping[str, float]
) -> GpuSignals:
    fields: dict[str, list[float]] = {}
    for one in looks:
        for field, value in one.values.items():
            fields.setdefault(field, []).append(value)
    means: dict[str, Any] = {field: sum(values) / len(values) for field, values in fields.items()}
    for field, extreme in (("memory_used_bytes", max), ("power_least_w", min), ("power_most_w", max)):
        if field in fields:
            means[field] = extreme(fields[field])
    source = "gpm" if any(field in means for field in PIPES) else "dcgm" if counters else None
    if source == "dcgm":
        means.update(counters)
    reasons = [one.reasons for one in looks if one.reasons is not None]
    if reasons:
        shares = {word: sum(bool(bits & bit) for bits in reasons) / len(reasons) for word, bit in CLOCK_REASONS.items()}
        means["clock_reasons"] = {word: share for word, share in shares.items() if share}
    holders = [len(one.pids) for one in looks if one.pids is not None]
    means["processes"] = sum(holders) / len(holders) if holders else None
    return GpuSignals(number=float(number), uuid=uuid, name=name, source=source, **{**means, **_pattern(looks)})


def _pattern(looks: list[_Look]) -> dict[str, float]:
    """Returns when kernels ran: the share of the time, and the stretches without any."""
    samples = [sample for one in looks for sample in one.samples]
    if not samples:
        return {}
    longest, stretches, since = 0.0, 0, None
    last = 0
    for sample in samples:
        is_next = 0 < sample.at_us - last <= MOST_GAP_S * 1e6
        if sample.busy > 0 or not is_next:
            since = None
        if sample.busy == 0:
            if since is None:
                stretches, since = stretches + 1, last if is_next else sample.at_us
            longest = max(longest, (sample.at_us - since) / 1e6)
        last = sample.at_us
    return {
        "kernel_active": sum(sample.busy for sample in samples) / len(samples),
        "samples": float(len(samples)),
        "off": sum(sample.busy == 0 for sample in samples) / len(samples),
        "longest_off_s": longest,
        "off_stretches": float(stretches),
    }


def counted(means: Mapping[int, float]) -> dict[str, float | None]:
    """GPM's percents and MiB/s as shares and bytes per second."""
    values: dict[str, float | None] = {name: _scaled(means.get(metric), 0.01) for name, metric in PIPES.items()}
    links = [means[metric] for metric in (nvml.NVLINK_IN, nvml.NVLINK_OUT) if metric in means]
    values["nvlink_bytes_per_s"] = sum(links) * (1 << 20) if len(links) == 2 else None
    return values


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


class GpuWatch:
    """`load` finds the driver's library. Nothing here waits for the thread that looks."""

    def __init__(self, look_s: float, load: Callable[[], Nvml | None] = Nvml.load) -> None:
        self._look_s, self._load = look_s, load
        self._gpus: list[WatchedGpu] | None = None
        self._looked_at = float("-inf")

    def watch(self, over: threading.Event) -> None:
        """Watches GPUs until the attempt is over. A driver that is installed at the first boot is found later."""
        while not over.is_set():
            library = self._load()
            if library is not None:
                try:
                    self._gpus = [WatchedGpu(library, n, device) for n, device in enumerate(library.devices())]
                    break
                except OSError:
                    pass
            over.wait(30 * self._look_s)
        while self._gpus and not over.wait(self._look_s):
            for gpu in self._gpus:
                gpu.look()
            self._looked_at = time.monotonic()

    def is_fresh(self) -> bool:
        """Says whether it looked lately: no call hangs."""
        return time.monotonic() - self._looked_at < 10 * self._look_s + 20

    def pids(self) -> set[int]:
        return {pid for gpu in self._gpus or () for pid in gpu.pids or ()} if self.is_fresh() else set()

    def needs_dcgm(self) -> bool:
        """Says whether there are GPUs without counters of their own."""
        return bool(self._gpus) and not any(gpu.has_counters for gpu in self._gpus or ())

    def figures(self) -> list[dict[str, Any]] | None:
        """Returns the figures for heartbeats; None where NVML does not answer."""
        return [gpu.figures() for gpu in self._gpus] if self._gpus and self.is_fresh() else None

    def report(self, dcgm: Mapping[int, Mapping[str, float]]) -> tuple[GpuSignals, ...] | None:
        """Reports on the GPUs; None where they cannot be read, which does not mean that there are none."""
        if self._gpus is None or (self._gpus and not self.is_fresh()):
            return None
        return tuple(gpu.report(dcgm.get(number, {})) for number, gpu in enumerate(self._gpus))
