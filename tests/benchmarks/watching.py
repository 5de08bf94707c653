"""Measures the cost of watching what bounds a command: the agent's CPU time and memory, and the training's pace.

The pace is in steps per second of the training's own processor time, with the agent's looks and py-spy all the time,
which runs for half a minute in five, against without, in turn: other work on the machine then counts little.
"""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from tests.agent.fake_guard import guard_at_a_port
from tests.agent.fake_metadata import metadata_server
from tests.agent.vm import Vm
from tests.benchmarks.measure import Measured

from costguard.jobs.act.attempts.vm_tools import vm_tools
from costguard_vm.agent.watch.process_watch import TREE_S, ProcessWatch
from costguard_vm.bundle import bundle

_PAIRS, _PHASE_S, _LOOKS = 20, 3, 20
_GOAL_CORE, _GOAL_MB, _GOAL_PACE = 1.0, 40.0, 0.5  # percent of a core, MB, percent

_TRAINS = """
import mmap, struct, sys, time
file = open(sys.argv[1], "r+b")
shown = mmap.mmap(file.fileno(), 16)
weights, steps = [i / 1000 for i in range(1000)], 0
print("begun", flush=True)
while True:
    weights = [one * 0.999 + 0.001 for one in weights]
    steps += 1
    if steps % 100 == 0:
        shown[:] = struct.pack("qd", steps, time.process_time())
"""
_CROWD = """
import os, threading, time
def crowd():
    for _ in range(30):
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
for _ in range(12):
    if not os.fork():
        crowd()
        print("begun", flush=True)
        time.sleep(3600)
crowd()
print("begun", flush=True)
time.sleep(3600)
"""


def watching(folder: Path) -> Iterator[Measured]:
    """Rows of the table."""
    yield Measured("watching 13 processes, 403 threads", "% of a core", [_crowd()], _GOAL_CORE)
    yield Measured("memory of the agent next to a training", "MB", [_agent(folder)], _GOAL_MB)
    yield Measured("pace lost by a training that is watched", "%", _pace(folder), _GOAL_PACE)


def _crowd() -> float:
    with _running(_CROWD, 13) as pid:
        watch = ProcessWatch()
        began = time.process_time()
        for _ in range(_LOOKS):
            watch.report([pid], ())
        tree_s = (time.process_time() - began) / _LOOKS
        began = time.process_time()
        for _ in range(_LOOKS):
            watch.look([pid], ())
        look_s = (time.process_time() - began) / _LOOKS
    return 100 * (tree_s / TREE_S + look_s)


def _agent(folder: Path) -> float:
    """Returns its share of pages that it has in common with others, once it has reported twice
    (proc_pid_smaps_rollup).
    """
    file = folder / "agent.pyz"
    file.write_bytes(bundle())
    with guard_at_a_port() as (guard, port), metadata_server() as metadata:
        port.listen()
        vm = Vm(folder, file, metadata, guard)
        (vm.tools / "py-spy").symlink_to(vm_tools()["py-spy"].path)
        vm.train("while True: pass", heartbeat_s=1.0, stacks=True, activity_s=6.0)
        try:
            agent = vm.boot()
            guard.wait_for("activity", count=2)
            lines = Path(f"/proc/{agent.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        finally:
            vm.close()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1024 / 1e6


def _pace(folder: Path) -> list[float]:
    counter = folder / "steps"
    counter.write_bytes(bytes(16))
    with _running(_TRAINS, 1, str(counter)) as pid, counter.open("r+b") as file:
        shown = mmap.mmap(file.fileno(), 16)
        losses = []
        for turn in range(_PAIRS):
            paces = {is_seen: _phase(shown, pid, folder, is_seen) for is_seen in (bool(turn % 2), not turn % 2)}
            losses.append(100 * (1 - paces[True] / paces[False]))
    return losses


def _phase(shown: mmap.mmap, pid: int, folder: Path, is_seen: bool) -> float:
    """Steps per second of processor time."""
    watch, spies = ProcessWatch(), []
    words = [vm_tools()["py-spy"].path, "record", "--nonblocking", "--threads", "--format", "raw", "--rate", "5"]
    for which in ("--idle", "--gil") if is_seen else ():
        output = str(folder / f"stacks{which}")
        spies.append(
            subprocess.Popen([*words, which, "--output", output, "--pid", str(pid)], stderr=subprocess.DEVNULL)
        )
    before = struct.unpack("qd", shown[:])
    for _ in range(_PHASE_S):
        Event().wait(1.0)
        if is_seen:
            watch.look([pid], ())
    after = struct.unpack("qd", shown[:])
    assert after[1] > before[1], "the training got no processor for as long as it was looked at"
    for spy in spies:
        spy.kill()
        spy.wait()
    return float((after[0] - before[0]) / (after[1] - before[1]))


@contextmanager
def _running(script: str, lines: int, *arguments: str) -> Iterator[int]:
    words = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, 9)
