"""The watch reads the command's processes from a real /proc over real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.waiting import until

from costguard_vm.agent.watch.dcgm import DcgmTable
from costguard_vm.agent.watch.process_watch import ProcessWatch, below, parse_stat, processes
from costguard_vm.diagnosis.signals import CommandSignals

SPIN = "import time\nprint(flush=True)\nwhile True: pass"
SLEEP = "import time\nprint(flush=True)\ntime.sleep(600)"
FORKS = """
import os, time
for _ in range(2):
    if not os.fork():
        while True: pass
print(flush=True)
time.sleep(600)
"""


@contextmanager
def running(*command: str, **environment: str) -> Iterator[int]:
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", **environment}, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            for one in reversed(below({one.pid: one for one in processes()}, [process.pid])):
                subprocess.run(["kill", "-9", str(one.pid)], check=False)


def seen(pid: int, is_enough: Callable[[CommandSignals], bool], gpu_pids: tuple[int, ...] = ()) -> CommandSignals:
    """The first report that shows it: a busy machine gives a process its share late."""
    watch = ProcessWatch()
    reports: list[CommandSignals] = []
    watch.look([pid], gpu_pids)

    def fits() -> bool:
        watch.look([pid], gpu_pids)
        report = watch.report([pid], gpu_pids)
        if report is not None and is_enough(report):
            reports.append(report)
        return bool(reports)

    until(fits)
    return reports[0]


def test_main_thread_that_computes_is_seen() -> None:
    """Host-bound: the main thread runs, or waits for a CPU, nearly all the time."""
    with running(sys.executable, "-c", SPIN) as pid:
        report = seen(pid, lambda report: (report.main_cpu or 0) + (report.main_queue or 0) > 0.8)

    assert report.workers == 0
    assert report.workers_cpu is None
    assert report.ranks == 1


def test_main_thread_that_waits_is_seen() -> None:
    """Asleep all the time, and no CPU used."""
    with running(sys.executable, "-c", SLEEP) as pid:
        report = seen(pid, lambda report: report.main_asleep == 1)

    assert report.main_cpu is not None
    assert report.main_cpu < 0.1
    assert report.main_in_d == 0


def test_workers_are_told_from_the_main_process() -> None:
    """Loader workers are the processes below the one that trains; what they use is theirs."""
    with running(sys.executable, "-c", FORKS) as pid:
        report = seen(pid, lambda report: (report.workers_cpu or 0) > 0.3 and report.main_asleep == 1)

    assert report.workers == 2
    assert report.cpu is not None
    assert report.workers_busiest is not None


def test_wrappers_do_not_pass_for_the_training() -> None:
    """`sh -c` and its like wait for one program: the main thread is that program's."""
    with running("sh", "-c", f"{sys.executable} -c '{SPIN}'; true") as pid:
        report = seen(pid, lambda report: (report.main_cpu or 0) + (report.main_queue or 0) > 0.8)

    assert report.processes == 2
    assert report.workers == 0


def test_ranks_of_a_launcher_are_the_main_processes() -> None:
    """torchrun names each rank in LOCAL_RANK; their means are reported, and the launcher is none of them."""
    launch = "\n".join(
        (
            "import os, subprocess, sys, time",
            f"spin = {SPIN!r}",
            "quiet = {'stdout': subprocess.DEVNULL}",
            "for rank in '01': subprocess.Popen([sys.executable, '-c', spin], env={'LOCAL_RANK': rank}, **quiet)",
            "print(flush=True)",
            "time.sleep(600)",
        )
    )
    with running(sys.executable, "-c", launch) as pid:
        report = seen(pid, lambda report: report.ranks == 2 and (report.main_cpu or 0) > 0.1)

    assert report.processes == 3


def test_rank_that_was_seen_before_its_exec_is_a_rank() -> None:
    """Looked at earlier, it still has its launcher's environment, and it keeps its number and its start."""
    waits = ["sh", "-c", f"read go; LOCAL_RANK=$0 exec {sys.executable} -c '{SPIN}'"]
    watch = ProcessWatch()
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(subprocess.Popen([*waits, rank], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
            for rank in "01"
        ]
        pids = [rank.pid for rank in ranks]
        for rank in ranks:
            stack.callback(rank.kill)
        watch.look(pids, ())
        for rank in ranks:
            assert rank.stdin is not None
            rank.stdin.write(b"\n")
            rank.stdin.flush()

        def are_seen() -> bool:
            report = watch.report(pids, ())
            return report is not None and report.ranks == 2

        until(are_seen)


def test_process_on_the_gpu_is_the_main_one() -> None:
    """The process that holds the GPU is the one that trains, whatever started it."""
    with running(sys.executable, "-c", FORKS) as pid:
        child = below({one.pid: one for one in processes()}, [pid])[1].pid
        report = seen(pid, lambda report: (report.main_cpu or 0) > 0.1, (child,))

    assert report.ranks == 1
    assert report.main_running is not None
    assert report.main_running > 0


def test_ended_workers_count_for_the_tree() -> None:
    """Workers that live for an epoch alone leave their CPU time to the process that waited for them."""
    forks = """
import os
print(flush=True)
while True:
    if not os.fork():
        for _ in range(10**5): pass
        os._exit(0)
    os.wait()
"""
    with running(sys.executable, "-c", forks) as pid:
        report = seen(pid, lambda report: (report.cpu or 0) > 0.2)

    assert report.cpu is not None


def test_vanished_command_is_unread() -> None:
    """No process: no signals, rather than zeros."""
    watch = ProcessWatch()
    with running(sys.executable, "-c", SLEEP) as pid:
        watch.look([pid], ())

    assert watch.report([pid], ()) is None
    assert watch.main is None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        # proc(5): the name may hold spaces and brackets; from a VM with tmux and a renamed thread.
        (
            b"1234 (tmux: server) S 1 1234 1234 0 -1 4194368 2153 0 0 0 12 34 5 6 20 0 1 0 2093 9000 500 0",
            "tmux: server",
        ),
        (b"77 (a) b) (c) R 1 1 1 0 -1 0 0 0 0 0 1 2 3 4 20 0 7 0 99 9000 500 0", "a) b) (c"),
    ],
)
def test_any_name_of_a_process_is_read(line: bytes, name: str) -> None:
    """Fields are counted from the last bracket."""
    process = parse_stat(line)

    assert process is not None
    assert process.name == name
    assert process.parent == 1


# NVIDIA's DCGM user guide, "Feature Overview", Profiling Metrics: dcgmproftester11 on an A100.
GUIDE = """
    # Entity  GRACT  TENSO  DRAMA
          Id
        GPU 0  0.000  0.000  0.000
        GPU 0  0.552  0.527  0.000
        GPU 0  0.969  0.928  0.000
        GPU 0  0.973  0.931  0.000
"""
# A public note on MIG (dcgmi dmon -e 1001,1002,1003,1004,1005 -g 2).
MIG = """
  # Entity  GRACT  SMACT  SMOCC  TENSO  DRAMA
      Id
   GPU 0  0.429  0.429  0.364  0.011  0.400
   GPU-I 0  0.000  0.000  0.000  0.000  0.000
   GPU-I 1  0.750  0.750  0.637  0.020  0.800
"""
# A public test of another reader, with the head of DCGM 3 and fields that are not supported.
ABSENT = """#Entity   SMACT  TENSO  SMCLK  POWER  GPUTL
ID
GPU 0     0.912  0.521  1980   612.4  100
GPU 0     N/A    N/A    1980   610.0  100
GPU 1     N/A    N/A    1980   610.0  100
"""


@pytest.mark.parametrize(
    ("output", "means"),
    [
        (GUIDE, {0: {"tensor_active": pytest.approx((0.527 + 0.928 + 0.931) / 4), "dram_active": 0.0}}),
        (MIG, {0: {"sm_active": 0.429, "sm_occupancy": 0.364, "tensor_active": 0.011, "dram_active": 0.4}}),
        (ABSENT, {0: {"sm_active": 0.912, "tensor_active": 0.521}}),
    ],
)
def test_output_of_dcgm_is_read(output: str, means: dict[int, dict[str, float]]) -> None:
    """Recorded tables: columns by their names, N/A absent, MIG instances left out."""
    table = DcgmTable()
    for line in output.splitlines():
        table.read(line)

    assert table.take() == means
    assert table.take() == {}


def test_nvlink_of_dcgm_is_both_directions() -> None:
    """Bytes per second, sent and received together; one direction alone says nothing."""
    table = DcgmTable()
    for line in ("#Entity   NVLTX  NVLRX", "GPU 0   1000  500", "GPU 1   1000  N/A"):
        table.read(line)

    assert table.take() == {0: {"nvlink_bytes_per_s": 1500.0}}
