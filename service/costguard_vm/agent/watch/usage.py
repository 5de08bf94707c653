"""Measures the load of the VM: CPUs, memory, disks, network and GPUs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from typing import Any

from costguard_vm.agent.files import read

from .gpu_watch import GpuWatch

GPU_FIELDS = ("index", "uuid", "name", "utilization.gpu", "memory.used", "memory.total")


class VmUsage:
    """Utilisation since the last look. What is not measured is None, never 0."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._before = counters()
        self._gpus: tuple[float, list[dict[str, Any]] | None] = (0.0, None)
        self.nvml = GpuWatch(1.0)

    def look(self, fresh_s: float) -> dict[str, Any]:
        now, before = counters(), self._before
        self._before = now
        seconds = now["at"] - before["at"]
        rates = {
            f"{name}_per_s": round((now[name] - before[name]) / seconds)
            for name in ("disk_read_bytes", "disk_written_bytes", "network_in_bytes", "network_out_bytes")
            if name in now and name in before and seconds > 0
        }
        busy = None
        if now.get("cpu_all", 0) > before.get("cpu_all", 0):
            busy = round((now["cpu_busy"] - before["cpu_busy"]) / (now["cpu_all"] - before["cpu_all"]), 4)
        memory = dict(re.findall(r"(?m)^(MemTotal|MemAvailable):\s+(\d+) kB", read("/proc/meminfo")))
        total, left = (int(memory.get(name, 0)) << 10 for name in ("MemTotal", "MemAvailable"))
        measured, gpus = self._gpus
        return {
            "cpu": busy,
            "cpus": os.cpu_count(),
            "memory_used_bytes": total - left if total else None,
            "memory_total_bytes": total or None,
            **disk(self._folder),
            "gpus": self.nvml.figures() or (gpus if time.monotonic() - measured < fresh_s else None),
            **rates,
        }

    def watch_gpus(self, every_s: float, over: threading.Event) -> None:
        """Watches GPUs where NVML does not answer.

        Separate from heartbeats: nvidia-smi hangs when a GPU fell off its bus.
        """
        while True:
            if self.nvml.figures() is None:
                self._gpus = (time.monotonic(), gpus())
            if over.wait(every_s):
                return


def counters() -> dict[str, float]:
    """Reads the kernel's counters since the boot: clock ticks of all CPUs, bytes, milliseconds of a busy disk."""
    totals: dict[str, float] = {"at": time.monotonic()}
    ticks = [int(word) for word in read("/proc/stat").split("\n")[0].split()[1:9]]
    if len(ticks) >= 5:
        totals.update(cpu_all=sum(ticks), cpu_busy=sum(ticks) - ticks[3] - ticks[4], io_wait=ticks[4])
    if len(ticks) >= 8:
        totals["steal"] = ticks[7]
    disks = re.findall(
        r"(?m)^\s*\d+\s+\d+\s+([shv]d[a-z]+|nvme\d+n\d+) \d+ \d+ (\d+) \d+ \d+ \d+ (\d+) \d+ \d+ (\d+)",
        read("/proc/diskstats"),
    )
    if disks:  # always counted in sectors of 512 bytes
        totals["disk_read_bytes"], totals["disk_written_bytes"] = (
            512 * sum(int(disk[place]) for disk in disks) for place in (1, 2)
        )
        totals.update({f"busy_ms {name}": int(busy) for name, _, _, busy in disks})
    cards = re.findall(r"(?m)^\s*e\w+:\s*(\d+)(?:\s+\d+){7}\s+(\d+)", read("/proc/net/dev"))
    if cards:
        totals["network_in_bytes"], totals["network_out_bytes"] = (sum(map(int, n)) for n in zip(*cards))
    return totals


def disk(folder: str) -> dict[str, Any]:
    """The filesystem of the agent's files, and the job's where it has no other. None where it is not known."""
    place = os.path.realpath(folder)
    while not os.path.ismount(place):
        place = os.path.dirname(place)
    try:
        usage = shutil.disk_usage(place)
    except OSError:
        return {"disk_mount": place, "disk_free_bytes": None, "disk_total_bytes": None}
    return {"disk_mount": place, "disk_free_bytes": usage.free, "disk_total_bytes": usage.total}


def gpus() -> list[dict[str, Any]] | None:
    """Returns one entry per GPU; None where nvidia-smi is absent or fails, which does not mean that there is no GPU."""
    command = ["nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                text = process.communicate(timeout=20)[0].decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                process.kill()
                return None
    except OSError:
        return None
    entries = []
    for row in text.splitlines() if process.returncode == 0 else []:
        index, uuid, name, busy, used, total = ([cell.strip() for cell in row.split(",")] + [""] * 6)[:6]
        numbers = [float(cell) if re.fullmatch(r"[\d.]+", cell) else None for cell in (busy, used, total)]
        entries.append(
            {
                "index": index,
                "uuid": uuid,
                "name": name,
                "utilisation": None if numbers[0] is None else numbers[0] / 100,
                "memory_used_bytes": None if numbers[1] is None else int(numbers[1]) << 20,
                "memory_total_bytes": None if numbers[2] is None else int(numbers[2]) << 20,
            }
        )
    return entries if process.returncode == 0 else None
