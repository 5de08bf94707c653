"""Watches a training from outside, as the agent would: minutes of signals and raw stacks of its main thread.

Minutes are two seconds long here, so that a run of half a minute has two windows of five.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from costguard.diagnosis.signals import CommandSignals, GpuSignals, HostSignals, Minute

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


def _pressure() -> dict[str, float]:
    totals = {}
    for what in ("cpu", "io", "memory"):
        for line in (_PROC / "pressure" / what).read_text().splitlines():
            kind, *values = line.split()
            totals[f"{what}_{kind}"] = int(dict(value.split("=") for value in values)["total"]) / 1e6
    return totals


@dataclass
class Watched:
    """One minute, and the stacks that were read in it: each with how often."""

    minute: Minute
    stacks: Counter[str]


def watch(
    pid: int, busy_s: Callable[[], float], cpus: int, seconds: float, is_over: Callable[[], bool]
) -> Iterator[Watched]:
    """Minutes of `seconds` of the process and those below it, until it is over. `busy_s` is the stand-in's meter."""
    stacks = Stacks(pid)
    threading.Thread(target=stacks.run, daemon=True).start()
    while not is_over():
        pids = _tree(pid)
        looks, busy, pressure = [look(pids)], [busy_s()], _pressure()
        ends = looks[0].at + seconds
        while time.monotonic() < ends:
            time.sleep(_TICK_S)  # noqa: TID251 - this measures real processes
            looks.append(look(pids))
            busy.append(busy_s())
        yield Watched(_minute(pid, looks, busy, (pressure, _pressure()), cpus), stacks.taken())
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


def _minute(
    pid: int, looks: list[Threads], busy: list[float], pressure: tuple[dict[str, float], dict[str, float]], cpus: int
) -> Minute:
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
    active = [
        min(1.0, (after - before) / (two.at - one.at))
        for before, after, one, two in zip(busy, busy[1:], looks, looks[1:], strict=False)
    ]
    off = [share < 0.02 for share in active]
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
    before, after = pressure
    shares = {name: min(1.0, (after[name] - before[name]) / span) for name in after if name in HostSignals._fields}
    # What others do on this machine is no part of the "VM": its CPUs are the command's alone.
    host = HostSignals(cpus=float(cpus), cpu=min(float(cpus), command.cpu or 0.0), **{**shares, "cpu_some": None})
    gpu = GpuSignals(
        number=0.0,
        kernel_active=min(1.0, (busy[-1] - busy[0]) / span),
        samples=float(len(active)),
        off=sum(off) / len(off),
        longest_off_s=_longest(off, span / len(off)),
    )
    return Minute(seconds=span, looks=float(len(looks)), gpus=(gpu,), command=command, host=host)


def _longest(off: list[bool], each_s: float) -> float:
    longest = running = 0
    for one in off:
        running = running + 1 if one else 0
        longest = max(longest, running)
    return longest * each_s
