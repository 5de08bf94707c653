"""Watches a training from outside, as the agent would: minutes of signals and raw stacks of its main thread.

Minutes are two seconds long here, so that a run of half a minute has two windows of five.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from tests.diagnosis.bounds.meter import Counters

from costguard_vm.agent.watch.dcgm import DcgmTable, watch_dcgm
from costguard_vm.agent.watch.gpu_watch import GpuWatch
from costguard_vm.diagnosis.signals import CommandSignals, GpuSignals, HostSignals, Minute

_TICK_S = 0.1
_PROC = Path("/proc")


@dataclass
class Threads:
    """Counters of one look at the command's processes; CPU and run-queue wait in seconds, by thread."""

    at: float
    cpu: dict[tuple[int, int], float] = field(default_factory=dict)
    queue: dict[tuple[int, int], float] = field(default_factory=dict)
    state: dict[tuple[int, int], str] = field(default_factory=dict)
    read: int = 0
    disk_read: int = 0
    written: int = 0
    disk_written: int = 0


def _tree(pid: int) -> list[int]:
    """The process and all below it."""
    parents = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    tree = [pid]
    for one in tree:
        tree += [child for child, parent in parents.items() if parent == one]
    return tree


def look(pids: list[int]) -> Threads:
    seen = Threads(time.monotonic())
    for pid in pids:
        try:
            io = dict(line.split(": ") for line in (_PROC / str(pid) / "io").read_text().splitlines())
            tasks = list((_PROC / str(pid) / "task").iterdir())
        except OSError:
            continue
        seen.read += int(io["rchar"])
        seen.disk_read += int(io["read_bytes"])
        seen.written += int(io["wchar"])
        seen.disk_written += int(io["write_bytes"])
        for task in tasks:
            try:
                runs, waits, _ = (task / "schedstat").read_text().split()
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            key = (pid, int(task.name))
            seen.cpu[key], seen.queue[key], seen.state[key] = int(runs) / 1e9, int(waits) / 1e9, state
    return seen


def _host() -> dict[str, float]:
    totals = {}
    for what in ("cpu", "io", "memory"):
        for line in (_PROC / "pressure" / what).read_text().splitlines():
            kind, *values = line.split()
            totals[f"{what}_{kind}"] = int(dict(value.split("=") for value in values)["total"]) / 1e6
    ticks = (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
    totals["cpu_s"] = (sum(map(int, ticks)) - int(ticks[3]) - int(ticks[4])) / os.sysconf("SC_CLK_TCK")
    return totals


class Device(Protocol):
    """The device that the training computes on."""

    def busy_s(self) -> float: ...

    def gpus(self, busy: list[float], span: float) -> tuple[GpuSignals, ...] | None:
        """Returns the GPUs since the minute's begin; `busy` are its counters at each look."""


class MeteredStandIn:
    """The process that stands in for a GPU."""

    def __init__(self, file: Path) -> None:
        self._counters = Counters(file)

    def busy_s(self) -> float:
        return self._counters.busy_s()

    def gpus(self, busy: list[float], span: float) -> tuple[GpuSignals, ...]:
        each_s = span / (len(busy) - 1)
        off = [(after - before) / each_s < 0.02 for before, after in pairwise(busy)]
        gpu = GpuSignals(
            number=0.0,
            kernel_active=min(1.0, (busy[-1] - busy[0]) / span),
            samples=float(len(off)),
            off=sum(off) / len(off),
            longest_off_s=_longest(off, each_s),
        )
        return (gpu,)


class RealGpu:
    """A GPU read through the agent's own NVML and DCGM."""

    def __init__(self) -> None:
        over, self._watch, self._dcgm = threading.Event(), GpuWatch(1.0), DcgmTable()
        threading.Thread(target=self._watch.watch, args=(over,), daemon=True).start()
        threading.Thread(target=watch_dcgm, args=(self._dcgm, self._watch.needs_dcgm, over), daemon=True).start()

    def busy_s(self) -> float:
        return 0.0

    def gpus(self, busy: list[float], span: float) -> tuple[GpuSignals, ...] | None:
        return self._watch.report(self._dcgm.take())


@dataclass
class Watched:
    """A minute, and the stacks that were read in it: each with how often."""

    minute: Minute
    stacks: Counter[str]


def watch(pid: int, device: Device, cpus: int, seconds: float, is_over: Callable[[], bool]) -> Iterator[Watched]:
    """Minutes of `seconds` of the process and those below it, until it is over."""
    stacks = Stacks(pid)
    threading.Thread(target=stacks.run, daemon=True).start()
    while not is_over():
        pids = _tree(pid)
        looks, busy, host = [look(pids)], [device.busy_s()], _host()
        ends = looks[0].at + seconds
        while time.monotonic() < ends:
            time.sleep(_TICK_S)  # noqa: TID251 - this measures real processes
            looks.append(look(pids))
            busy.append(device.busy_s())
        gpus = device.gpus(busy, looks[-1].at - looks[0].at)
        minute = _minute(pid, looks, (host, _host()), cpus)
        yield Watched(minute._replace(gpus=gpus), stacks.taken())
    stacks.is_over.set()


class Stacks:
    """Reads the main thread's stack again and again, without stopping it."""

    def __init__(self, pid: int) -> None:
        self._pid, self._lock, self._stacks = pid, threading.Lock(), Counter[str]()
        self.is_over = threading.Event()

    def run(self) -> None:
        words = ["py-spy", "dump", "--nonblocking", "--json", "--pid", str(self._pid)]
        while not self.is_over.wait(0.2):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                continue
            main = next((one for one in json.loads(done.stdout) if one["thread_name"] == "MainThread"), None)
            if main is not None:
                frames = [
                    f"{frame['name']} ({frame['short_filename'] or frame['filename']})" for frame in main["frames"]
                ]
                with self._lock:
                    self._stacks[" < ".join(frames)] += 1

    def taken(self) -> Counter[str]:
        with self._lock:
            stacks, self._stacks = self._stacks, Counter()
        return stacks


def _minute(pid: int, looks: list[Threads], hosts: tuple[dict[str, float], dict[str, float]], cpus: int) -> Minute:
    first, last = looks[0], looks[-1]
    span = last.at - first.at
    main = (pid, pid)
    used = {key: value - first.cpu.get(key, 0.0) for key, value in last.cpu.items()}
    queued = {key: value - first.queue.get(key, 0.0) for key, value in last.queue.items()}
    workers = sorted({key[0] for key in last.cpu} - {pid})
    shares_of_workers = [sum(value for key, value in used.items() if key[0] == worker) / span for worker in workers]
    states = [one.state.get(main, "?") for one in looks]
    in_d = [sum(state == "D" for state in one.state.values()) for one in looks]
    workers_in_d = (
        [sum(one.state.get((worker, worker)) == "D" for worker in workers) / len(workers) for one in looks]
        if workers
        else [0.0]
    )
    command = CommandSignals(
        processes=float(1 + len(workers)),
        threads=float(len(last.cpu)),
        cpu=sum(used.values()) / span,
        ranks=1.0,
        main_cpu=min(1.0, used.get(main, 0.0) / span),
        main_queue=min(1.0, queued.get(main, 0.0) / span),
        main_running=states.count("R") / len(states),
        main_asleep=states.count("S") / len(states),
        main_in_d=states.count("D") / len(states),
        other_cpu=sum(value for key, value in used.items() if key[0] == pid and key != main) / span,
        workers=float(len(workers)),
        workers_cpu=sum(shares_of_workers) if workers else 0.0,
        workers_busiest=min(1.0, max(shares_of_workers)) if workers else None,
        workers_in_d=sum(workers_in_d) / len(looks) if workers else None,
        queue=sum(queued.values()) / span,
        in_d=sum(in_d) / len(looks),
        read_bytes_per_s=max(0, last.read - first.read) / span,
        disk_read_bytes_per_s=max(0, last.disk_read - first.disk_read) / span,
        written_bytes_per_s=max(0, last.written - first.written) / span,
        disk_written_bytes_per_s=max(0, last.disk_written - first.disk_written) / span,
    )
    before, after = hosts
    shares = {name: min(1.0, (after[name] - before[name]) / span) for name in after if name in HostSignals._fields}
    busy_cpus = (after["cpu_s"] - before["cpu_s"]) / span
    host = HostSignals(cpus=float(cpus), cpu=min(float(cpus), busy_cpus), **shares)
    return Minute(seconds=span, looks=float(len(looks)), command=command, host=host)


def _longest(off: list[bool], each_s: float) -> float:
    longest = running = 0
    for one in off:
        running = running + 1 if one else 0
        longest = max(longest, running)
    return longest * each_s
