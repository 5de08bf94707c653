"""Looks for signs that a command lives, and where it stands while it makes no progress: for `progress/alive.py`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from costguard_vm.progress.alive import AliveRule, HangVerdict, Signs

from .files import PACE, fleet_seconds, names_in, read, say, utc_of
from .settings import AttemptSettings
from .transfers.tool import ToolFinder
from .watch.ranks import descendants

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MOST_PLACES = 8  # kernel functions that processes wait in
MOST_STACKS = 8  # processes
STACK_S = 10.0  # for one process
MOST_STACK_CHARACTERS = 8 << 10
# What a thread waits in is a name without meaning where the kernel hides it.
_HIDDEN = ("", "0")


class TreeCounters:
    """Sums of the command's processes, which only grow: what a process counted stays when it has ended."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], tuple[float, int, int]] = {}
        self._cpu_s, self._read, self._written = 0.0, 0, 0
        self._is_io_known = False

    def look(self, processes: Iterable[int]) -> tuple[float | None, int | None, int | None]:
        """Seconds of processor time, and bytes read and written. None: not known."""
        now: dict[tuple[int, str], tuple[float, int, int]] = {}
        for process in processes:
            stat = read(f"/proc/{process}/stat").rpartition(")")[2].split()
            if len(stat) < 20:
                continue
            io = dict(line.split(": ") for line in read(f"/proc/{process}/io").splitlines() if ": " in line)
            self._is_io_known = self._is_io_known or "rchar" in io
            cpu_s = (int(stat[11]) + int(stat[12])) / TICKS_PER_S
            now[process, stat[19]] = cpu_s, int(io.get("rchar", 0)), int(io.get("wchar", 0))
        if not now:
            return None, None, None
        for key, counts in now.items():
            before = self._last.get(key, (0.0, 0, 0))
            cpu_s, was_read, written = (max(0, after - one) for one, after in zip(before, counts))
            self._cpu_s, self._read, self._written = (
                self._cpu_s + cpu_s,
                self._read + int(was_read),
                self._written + int(written),
            )
        self._last = now
        return self._cpu_s, *((self._read, self._written) if self._is_io_known else (None, None))


class Liveness:
    """Looks once at each heartbeat. `clock` counts the fleet's seconds. A hang is reported with what it waits in."""

    def __init__(
        self, settings: AttemptSettings, log: str, py_spy: ToolFinder, clock: Callable[[], float] = fleet_seconds
    ) -> None:
        self._settings, self._log, self._py_spy, self._clock = settings, log, py_spy, clock
        self._rule, self._counters = AliveRule(settings.hang_least_s), TreeCounters()
        self._is_hung = False
        self._details: dict[str, Any] | None = None  # of a hang, once they are read
        self._lock = threading.Lock()

    def look(self, pid: int, heartbeat: Mapping[str, Any]) -> dict[str, Any]:
        """The field `hang` of a heartbeat, while the command hangs."""
        with self._lock:
            if heartbeat.get("phase"):  # the agent itself is at work: what the command does not do meanwhile is no hang
                self._rule.pause()
                self._is_hung = False
                return {}
            processes = self._processes(pid)
            hang = self._rule.look(self._signs(processes, heartbeat))
            if hang is None:
                self._is_hung = False
                return {}
            if not self._is_hung:
                self._is_hung, self._details = True, None
                threading.Thread(target=self._read_details, args=(processes,), daemon=True).start()
            if self._details is None:
                return {}
            return {"hang": {**_fields(hang), "step": heartbeat.get("step"), **self._details}}

    def _signs(self, processes: list[int], heartbeat: Mapping[str, Any]) -> Signs:
        cpu_s, was_read, written = self._counters.look(processes)
        if PACE != 1:  # what processors and disks do is by the VM's own second, and `clock` is the fleet's
            cpu_s = None if cpu_s is None else cpu_s * PACE
            was_read, written = (None if count is None else int(count * PACE) for count in (was_read, written))
        progress = heartbeat.get("progress") or {}
        step, total = progress.get("step") or heartbeat.get("step"), progress.get("total")
        mark = (heartbeat.get("step"), *(progress.get(name) for name in ("step", "epoch", "batch")))
        gpus = (heartbeat.get("machine") or {}).get("gpus") or []
        shares = [gpu["utilisation"] for gpu in gpus if gpu.get("utilisation") is not None]
        return Signs(
            self._clock(),
            mark if any(part is not None for part in mark) else None,
            progress.get("phase") == "eval",
            bool(total and step and step >= total),
            self._printed(),
            written,
            was_read,
            cpu_s,
            max(shares) if shares else None,
        )

    def _printed(self) -> int | None:
        """A number that changes whenever something is printed."""
        try:
            return os.stat(self._log).st_mtime_ns
        except OSError:
            return None

    def _processes(self, pid: int) -> list[int]:
        if not self._settings.image:
            return [pid, *descendants(pid)]
        # A container's processes are no children of ours: they have the variables that the command was given.
        own = f"COSTGUARD_ATTEMPT={self._settings.attempt}\0"
        return [int(name) for name in names_in("/proc") if name.isdecimal() and own in read(f"/proc/{name}/environ")]

    def _read_details(self, processes: list[int]) -> None:
        """Reads details in a thread of its own: reading stacks takes seconds, and a heartbeat must not wait for it."""
        details: dict[str, Any] = {"waits": []}
        try:
            details = {"waits": _waits(processes)}
            if self._settings.stacks:
                details["stacks"] = self._stacks(processes)
        except Exception as problem:  # the hang is reported, whatever its details
            say(f"where the command hangs is not known: {problem!r}")
        self._details = details

    def _stacks(self, processes: list[int]) -> str:
        """Returns the stacks of Python's processes. py-spy does not stop them for it."""
        pythons = [one for one in processes if "python" in os.path.basename(os.path.realpath(f"/proc/{one}/exe"))]
        if not pythons:
            return ""
        tool = self._py_spy.path(time.sleep)
        said: list[str] = []
        for process in pythons[:MOST_STACKS]:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                order = [tool, "dump", "--nonblocking", "--pid", str(process)]
                ran = subprocess.run(order, capture_output=True, timeout=STACK_S, check=True, cwd="/")
                said.append(ran.stdout.decode("utf-8", "replace").strip())
        return "\n\n".join(said)[:MOST_STACK_CHARACTERS]


def _waits(processes: list[int]) -> list[str]:
    """Returns the calls that its threads wait in, as the kernel names them, the most frequent first."""
    threads: Counter[str] = Counter()
    for process in processes:
        for thread in names_in(f"/proc/{process}/task"):
            folder = f"/proc/{process}/task/{thread}"
            name, _, rest = read(f"{folder}/stat").partition("(")[2].rpartition(")")
            state = rest.split()[:1]
            if state and state[0] not in ("Z", "X"):
                place = read(f"{folder}/wchan").strip()
                where = f" in {place}" if place not in _HIDDEN else ""
                threads[f"{name} {_STATES.get(state[0], state[0])}{where}"] += 1
    return [f"{number} x {place}" for place, number in threads.most_common(MOST_PLACES)]


_STATES = {"R": "running", "S": "sleeping", "D": "in an uninterruptible wait", "T": "stopped", "t": "stopped"}


def _fields(hang: HangVerdict) -> dict[str, Any]:
    rounded = {name: round(value, 2) if isinstance(value, float) else value for name, value in hang._asdict().items()}
    return {**rounded, "since": utc_of(time.time() - hang.silent_s / PACE)}
