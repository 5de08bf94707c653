"""Watches the whole VM between two reports: CPUs, pressure, disks, network; and the command's share of them."""

from __future__ import annotations

import os
import re

from costguard_vm.agent.files import read
from costguard_vm.diagnosis.signals import HostSignals

from .usage import counters

CGROUPS = "/sys/fs/cgroup"
RATES = ("disk_read_bytes", "disk_written_bytes", "network_in_bytes", "network_out_bytes")


class HostWatch:
    def __init__(self) -> None:
        self._before = _counters(None)

    def report(self, main: int | None) -> HostSignals:
        """Reports on the time since the last report.

        `main` is the command's process, whose cgroup may allow it less than the VM has.
        """
        before, now = self._before, _counters(main)
        self._before = now
        span = now["at"] - before["at"]
        memory = dict(re.findall(r"(?m)^(MemTotal|MemAvailable):\s+(\d+) kB", read("/proc/meminfo")))
        total = int(memory["MemTotal"]) << 10 if "MemTotal" in memory else None
        left = int(memory["MemAvailable"]) << 10 if "MemAvailable" in memory else None

        def change(name: str) -> float | None:
            if span <= 0 or name not in now or name not in before:
                return None
            return max(0.0, (now[name] - before[name]) / span)

        def cores(name: str) -> float | None:
            rate = change(name)
            return None if rate is None else rate / os.sysconf("SC_CLK_TCK")

        busy = [change(name) for name in now if name.startswith("busy_ms ")]
        pressure = {
            f"{kind}_{which}": change(f"{kind}_{which}_us")
            for kind, which in (("cpu", "some"), ("io", "some"), ("io", "full"), ("memory", "some"), ("memory", "full"))
        }
        return HostSignals(
            cpus=float(os.cpu_count() or 0) or None,
            cpu_limit=cpu_limit(main),
            cpu_throttled=_ratio(change("throttled"), change("periods")),
            cpu=cores("cpu_busy"),
            io_wait=cores("io_wait"),
            steal=cores("steal"),
            memory_used_bytes=None if total is None or left is None else float(total - left),
            memory_total_bytes=None if total is None else float(total),
            disk_busy=max([one / 1000 for one in busy if one is not None], default=None),
            **{name: None if share is None else min(1.0, share / 1e6) for name, share in pressure.items()},
            **{f"{name}_per_s": change(name) for name in RATES},
        )


def cpu_limit(pid: int | None) -> float | None:
    """Cores that a process may use, by its cgroups' quotas (v2, v1) and its processors; None where it may use all.

    kernel.org, admin-guide/cgroup-v2, "cpu.max"; scheduler/sched-bwc, "cpu.cfs_quota_us".
    """
    if pid is None:
        return None
    limits = [_quota(place) for place in _cgroups(pid)]
    try:
        allowed = len(os.sched_getaffinity(pid))
    except OSError:
        allowed = 0
    if allowed and allowed < (os.cpu_count() or 0):
        limits.append(float(allowed))
    return min([limit for limit in limits if limit], default=None)


def _cgroups(pid: int) -> list[str]:
    """The folders of its cgroup and of those above."""
    folders = []
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = f"{CGROUPS}/cpu,cpuacct" if controllers else CGROUPS
        while path.strip("/"):
            folders.append(base + path)
            path = os.path.dirname(path)
        folders.append(base)
    return folders


def _quota(folder: str) -> float | None:
    words = read(f"{folder}/cpu.max").split() or [
        read(f"{folder}/cpu.cfs_quota_us").strip(),
        read(f"{folder}/cpu.cfs_period_us").strip(),
    ]
    if len(words) != 2 or not all(word.isdecimal() for word in words) or words[1] == "0":
        return None  # max, or -1: no limit
    return int(words[0]) / int(words[1])


def _counters(main: int | None) -> dict[str, float]:
    totals = counters()
    for kind in ("cpu", "io", "memory"):
        for which, microseconds in re.findall(r"(?m)^(some|full) .*total=(\d+)", read(f"/proc/pressure/{kind}")):
            totals[f"{kind}_{which}_us"] = int(microseconds)
    folders = _cgroups(main) if main is not None else []
    for name, number in re.findall(
        r"(?m)^nr_(periods|throttled) (\d+)", read(f"{folders[0]}/cpu.stat") if folders else ""
    ):
        totals[name] = int(number)
    return totals


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
