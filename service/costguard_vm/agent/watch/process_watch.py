"""Watches the command's processes, from /proc (man 5 proc): CPUs, waiting, disks.

CPU time and bytes of a process that ended count for the one that waited for it (the kernel adds them up in
kernel/exit.c, wait_task_zombie), so that totals over the tree lose nothing when workers come and go.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from costguard_vm.diagnosis.signals import CommandSignals

TREE_S = 10.0  # between two looks at the whole tree
MOST_THREADS, MOST_LOOKED_AT = 512, 64
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# They wait for the one program that they start.
WRAPPERS = frozenset(
    ("sh", "bash", "dash", "zsh", "tini", "docker-init", "dumb-init", "env", "timeout", "nice", "uv", "poetry", "conda")
)
HELPERS = re.compile(rb"multiprocessing[./](?:resource_tracker|semaphore_tracker)")


class TreeProcess(NamedTuple):
    """A line of /proc/PID/stat. `born` tells it from a later process of the same number."""

    pid: int
    name: str
    state: str
    parent: int
    cpu_s: float  # its own
    reaped_s: float  # of children that it waited for
    threads: int
    born: int
    memory: int


class _Counts(NamedTuple):
    """Counts at one moment, of the tree and of its main threads."""

    at: float
    processes: dict[int, TreeProcess]
    total_s: float
    mains: dict[int, tuple[float, float]]  # pid -> seconds that the main thread ran, and waited for a CPU
    bytes: dict[str, int] | None  # read and written by the tree
    queue: dict[tuple[int, int], float]  # (pid, thread) -> seconds of waiting for a CPU


class ProcessWatch:
    """`roots` are the command's own process and its container's first."""

    def __init__(self) -> None:
        self._first: _Counts | None = None
        self._last: _Counts | None = None
        self._mains: list[int] = []
        self._workers: list[int] = []
        self._states: list[tuple[list[str], list[str]]] = []
        self._threads_in_d: list[int] = []
        self._worker_counts: list[int] = []
        self._busiest = 0.0

    @property
    def main(self) -> int | None:
        """The process whose main thread is looked at first."""
        return self._mains[0] if self._mains else None

    def look(self, roots: Sequence[int], gpu_pids: Iterable[int]) -> None:
        """Looks once a second: cheap, but for a look at the whole tree now and then."""
        now = time.monotonic()
        if self._last is None or now - self._last.at >= TREE_S:
            self._count(now, roots, set(gpu_pids))
        if self._mains:
            self._states.append((_states(self._mains), _states(self._workers)))

    def report(self, roots: Sequence[int], gpu_pids: Iterable[int]) -> CommandSignals | None:
        """Reports on the time since the last report; None where no process of the command was seen twice."""
        self._count(time.monotonic(), roots, set(gpu_pids))
        first, last, self._first = self._first, self._last, self._last
        states, self._states = self._states, []
        in_d, self._threads_in_d = self._threads_in_d, []
        counts, self._worker_counts = self._worker_counts, []
        busiest, self._busiest = self._busiest, 0.0
        if first is None or last is None or not last.processes or last.at <= first.at:
            return None
        span = last.at - first.at
        mains = [pid for pid in last.mains if pid in first.mains and _same(first, last, pid)]
        ran = [last.mains[pid][0] - first.mains[pid][0] for pid in mains]
        waited = [last.mains[pid][1] - first.mains[pid][1] for pid in mains]
        own = [_own(first, last, pid) for pid in self._mains if pid in last.processes]
        cpu = max(0.0, last.total_s - first.total_s) / span
        workers = sum(counts) / len(counts) if counts else 0.0
        shared = [key for key in last.queue if key in first.queue]
        main_states = [state for mains_, _ in states for state in mains_]
        worker_states = [state for _, workers_ in states for state in workers_]
        return CommandSignals(
            processes=float(len(last.processes)),
            threads=float(sum(one.threads for one in last.processes.values())),
            cpu=cpu,
            ranks=float(len(mains)) if mains else None,
            main_cpu=_mean(ran, span),
            main_queue=_mean(waited, span),
            main_running=_share(main_states, "R"),
            main_asleep=_share(main_states, "SI"),
            main_in_d=_share(main_states, "D"),
            other_cpu=max(0.0, sum(own) - sum(ran)) / span if own and mains else None,
            workers=workers,
            workers_cpu=max(0.0, cpu - sum(own) / span) if workers and own else None,
            workers_busiest=busiest if workers else None,
            workers_in_d=_share(worker_states, "D"),
            queue=sum(last.queue[key] - first.queue[key] for key in shared) / span if shared else None,
            in_d=sum(in_d) / len(in_d) if in_d else None,
            memory_bytes=float(sum(one.memory for one in last.processes.values())),
            **_rates(first, last, span),
        )

    def _count(self, now: float, roots: Sequence[int], gpu_pids: set[int]) -> None:
        everything = {one.pid: one for one in processes()}
        tree = {one.pid: one for one in below(everything, roots)}
        self._mains = self._choose(tree, gpu_pids)[:MOST_LOOKED_AT]
        helpers = {pid for pid in tree if HELPERS.search(_read(f"/proc/{pid}/cmdline"))}
        under = [one.pid for one in below(tree, self._mains) if one.pid not in self._mains and one.pid not in helpers]
        self._workers = under[:MOST_LOOKED_AT]
        self._worker_counts.append(len(under))
        before, queue, blocked = self._last, {}, 0
        for pid, thread in _threads(tree):
            waited = scheduled(f"/proc/{pid}/task/{thread}/schedstat")
            if waited is not None:
                queue[pid, thread] = waited[1]
            blocked += _read(f"/proc/{pid}/task/{thread}/stat").rpartition(b")")[2][1:2] == b"D"
        self._threads_in_d.append(blocked)
        mains = {pid: scheduled(f"/proc/{pid}/task/{pid}/schedstat") for pid in self._mains}
        self._last = _Counts(
            now,
            tree,
            sum(one.cpu_s + one.reaped_s for one in tree.values()),
            {pid: counted for pid, counted in mains.items() if counted is not None},
            _bytes(tree),
            queue,
        )
        self._first = self._first or self._last
        if before is not None and now > before.at:
            shares = [_own(before, self._last, pid) / (now - before.at) for pid in self._workers]
            self._busiest = max([self._busiest, *shares])

    def _choose(self, tree: dict[int, TreeProcess], gpu_pids: set[int]) -> list[int]:
        """The processes whose main threads train: those on a GPU, the ranks of a launcher, or the one program."""
        holders = _topmost(tree, [pid for pid in tree if pid in gpu_pids])
        if holders:
            return holders
        # Read each time: between its fork and its exec a process has the environment of the one that started it.
        ranks = _topmost(tree, [pid for pid in tree if b"\0LOCAL_RANK=" in b"\0" + _read(f"/proc/{pid}/environ")])
        if ranks:
            return ranks
        children: dict[int, list[TreeProcess]] = {}
        for one in tree.values():
            children.setdefault(one.parent, []).append(one)
        top = [one for one in tree.values() if one.parent not in tree]
        while len(top) == 1:
            below_it = children.get(top[0].pid, [])
            if len(below_it) != 1 or not (top[0].name in WRAPPERS or 2 * top[0].memory < below_it[0].memory):
                break
            top = below_it
        return [max(top, key=lambda one: one.cpu_s + one.reaped_s).pid] if top else []


def processes() -> list[TreeProcess]:
    """All on this VM."""
    everything = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            one = parse_stat(_read(f"/proc/{name}/stat"))
            if one is not None:
                everything.append(one)
    return everything


def parse_stat(line: bytes) -> TreeProcess | None:
    """Parses a line; None where the process is gone. Its name may hold spaces and brackets."""
    start, _, rest = line.rpartition(b")")
    pid, _, name = start.partition(b" (")
    fields = rest.split()
    if len(fields) < 22:
        return None
    own, reaped = (int(fields[11]) + int(fields[12])) * TICK_S, (int(fields[13]) + int(fields[14])) * TICK_S
    state, parent, threads = fields[0].decode(), int(fields[1]), int(fields[17])
    words = name.decode("utf-8", "replace")
    return TreeProcess(int(pid), words, state, parent, own, reaped, threads, int(fields[19]), int(fields[21]) * PAGE)


def below(everything: dict[int, TreeProcess], roots: Iterable[int]) -> list[TreeProcess]:
    """The roots and all that they started, the nearest first."""
    children: dict[int, list[int]] = {}
    for one in everything.values():
        children.setdefault(one.parent, []).append(one.pid)
    order = list(dict.fromkeys(pid for pid in roots if pid in everything))
    seen = set(order)
    for pid in order:
        fresh = [child for child in children.get(pid, ()) if child not in seen]
        seen.update(fresh)
        order += fresh
    return [everything[pid] for pid in order]


def scheduled(path: str) -> tuple[float, float] | None:
    """Seconds that a thread ran, and that it waited for a CPU (kernel.org, scheduler/sched-stats)."""
    fields = _read(path).split()
    return (int(fields[0]) / 1e9, int(fields[1]) / 1e9) if len(fields) >= 2 else None


def _topmost(tree: dict[int, TreeProcess], chosen: list[int]) -> list[int]:
    """Returns those of them that none of the others started."""
    within = set(chosen)
    highest = []
    for pid in chosen:
        parent = tree[pid].parent
        while parent in tree and parent not in within:
            parent = tree[parent].parent
        if parent not in within:
            highest.append(pid)
    return sorted(highest)


def _threads(tree: dict[int, TreeProcess]) -> list[tuple[int, int]]:
    threads: list[tuple[int, int]] = []
    for pid in tree:
        if len(threads) >= MOST_THREADS:
            break
        try:
            threads += [(pid, int(name)) for name in os.listdir(f"/proc/{pid}/task")]
        except OSError:  # it is gone
            continue
    return threads[:MOST_THREADS]


def _states(pids: list[int]) -> list[str]:
    lines = [_read(f"/proc/{pid}/stat").rpartition(b")")[2][1:2].decode() for pid in pids]
    return [state for state in lines if state and state not in "ZX"]


def _share(states: list[str], wanted: str) -> float | None:
    return sum(state in wanted for state in states) / len(states) if states else None


def _mean(seconds: list[float], span: float) -> float | None:
    return max(0.0, sum(seconds) / len(seconds) / span) if seconds else None


def _same(first: _Counts, last: _Counts, pid: int) -> bool:
    return pid in first.processes and pid in last.processes and first.processes[pid].born == last.processes[pid].born


def _own(first: _Counts, last: _Counts, pid: int) -> float:
    """CPU seconds of one process, without its children; from its start where it began in between."""
    if pid not in last.processes:
        return 0.0
    return last.processes[pid].cpu_s - (first.processes[pid].cpu_s if _same(first, last, pid) else 0.0)


def _bytes(tree: dict[int, TreeProcess]) -> dict[str, int] | None:
    """Sums bytes read and written; None where they cannot be read, as without the right to trace the command."""
    totals: dict[str, int] = {}
    for pid in tree:
        for name, number in re.findall(rb"(\w+): (\d+)", _read(f"/proc/{pid}/io")):
            totals[name.decode()] = totals.get(name.decode(), 0) + int(number)
    return totals or None


def _rates(first: _Counts, last: _Counts, span: float) -> dict[str, float | None]:
    fields = {
        "read_bytes_per_s": "rchar",
        "disk_read_bytes_per_s": "read_bytes",
        "written_bytes_per_s": "wchar",
        "disk_written_bytes_per_s": "write_bytes",
    }
    if first.bytes is None or last.bytes is None:
        return {}
    before, after = first.bytes, last.bytes
    return {
        name: max(0, after[word] - before.get(word, 0)) / span if word in after else None
        for name, word in fields.items()
    }


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(file)
