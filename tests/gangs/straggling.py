"""Measures four real ranks, with and without a straggler, as their VMs' agents would.

`python -m tests.gangs.straggling` writes what the tests judge. Each rank is a process of its own that reads a batch,
computes, and waits in a receive until all have come so far. The agent's own watch measures each of them in minutes of
two seconds. One rank is made slow by slower computing (as lower clocks would), by other programs that take its CPU, by
a loader that decodes more, or by a loader that sleeps; the stacks are py-spy's.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from costguard_vm.agent.watch.process_watch import ProcessWatch
from costguard_vm.diagnosis.signals import Minute, StackSignals, as_json
from costguard_vm.diagnosis.stacks import read_raw, summed_up

RECORDED = Path(__file__).with_name("straggling.json")
RANKS, SLOW = 4, 2
MINUTE_S, LOOK_S = 2.0, 0.1
WORK_S = 0.004  # of CPU for a step
PLANTED = ("computing", "burned", "decoding", "sleeping")


class Batches:
    """Reads and decodes a batch for each step."""

    def __init__(self, file: Path, times: int, sleep_s: float) -> None:
        self._file, self._times, self._sleep_s = file, times, sleep_s

    def next_batch(self) -> int:
        threading.Event().wait(self._sleep_s)
        return max(zlib.crc32(self._file.read_bytes()) for _ in range(self._times))


def rank(port: int, file: Path, work: float, decode: int, sleep_s: float) -> None:
    """Trains until its peers are gone."""
    batches = Batches(file, decode, sleep_s)
    with socket.create_connection(("127.0.0.1", port)) as peers:
        while True:
            batches.next_batch()
            begin = time.process_time()
            while time.process_time() - begin < WORK_S * work:
                pass
            peers.sendall(b"1")
            if not peers.recv(1):
                return


def _meet(server: socket.socket) -> None:
    """Answers all ranks once all of them have come to the end of a step."""
    ranks = [server.accept()[0] for _ in range(RANKS)]
    try:
        while all(one.recv(1) for one in ranks):
            for one in ranks:
                one.sendall(b"1")
    except OSError:
        pass
    finally:
        for one in ranks:
            one.close()


@contextmanager
def training(planted: str, file: Path) -> Iterator[list[int]]:
    """Runs the ranks; `planted` is how one of them is slow, "" for none."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        threading.Thread(target=_meet, args=(server,), daemon=True).start()
        processes, burning = [], list[subprocess.Popen[bytes]]()
        for number in range(RANKS):
            kind = planted if number == SLOW else ""
            work, decode, sleep_s = 1.0, 1, 0.0
            if kind == "computing":
                work = 6.0
            if kind == "decoding":
                decode = 60
            if kind == "sleeping":
                sleep_s = 0.4
            options = [str(port), str(file), str(work), str(decode), str(sleep_s)]
            processes.append(subprocess.Popen([sys.executable, "-m", __spec__.name, "--rank", *options]))
            if kind == "burned":
                cpu = {min(os.sched_getaffinity(0))}
                os.sched_setaffinity(processes[-1].pid, cpu)
                os.setpriority(os.PRIO_PROCESS, processes[-1].pid, 10)
                burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
                for one in burning:
                    os.sched_setaffinity(one.pid, cpu)
        try:
            yield [one.pid for one in processes]
        finally:
            for one in (*processes, *burning):
                one.kill()
                one.wait()


def measured(pids: list[int], minutes: int, stacks: bool) -> list[list[Minute]]:
    """Returns the minutes of each rank."""
    watches = [ProcessWatch() for _ in pids]
    spies = [_spy(pid, minutes * MINUTE_S) for pid in pids] if stacks else []
    read: list[list[Minute]] = [[] for _ in pids]
    for _ in range(minutes):
        until = time.monotonic() + MINUTE_S
        while time.monotonic() < until:
            for watch, pid in zip(watches, pids, strict=True):
                watch.look([pid], [])
            threading.Event().wait(LOOK_S)
        for place, (watch, pid) in enumerate(zip(watches, pids, strict=True)):
            read[place].append(Minute(seconds=60.0, looks=60.0, gpus=(), command=watch.report([pid], [])))
    for place, (process, output) in enumerate(spies):
        process.wait(timeout=120)
        signals = summed_up(read_raw(output.read_text(), [str(pids[place])])) if output.exists() else StackSignals()
        read[place] = [one._replace(stacks=signals) for one in read[place]]
    return read


def _spy(pid: int, span_s: float) -> tuple[subprocess.Popen[bytes], Path]:
    output = Path(tempfile.mkdtemp(prefix="costguard-straggling-")) / "stacks.raw"
    command = [Path(sys.executable).with_name("py-spy"), "record", "--nonblocking", "--threads", "--idle"]
    command += ["--format", "raw", "--rate", "10", "--duration", str(round(span_s)), "--output", output]
    spy = subprocess.Popen(
        [*map(str, command), "--pid", str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return spy, output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calm", type=int, default=20, help="runs without a straggler")
    parser.add_argument("--minutes", type=int, default=8, help="of each run")
    parser.add_argument("--rank", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        port, file, work, decode, sleep_s = given.rank
        with suppress(OSError):  # its peers are gone
            rank(int(port), Path(file), float(work), int(decode), float(sleep_s))
        return
    runs: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="costguard-straggling-") as folder:
        batch = Path(folder) / "batch"
        batch.write_bytes(os.urandom(1 << 19))
        for planted in (*PLANTED, *([""] * given.calm)):
            with training(planted, batch) as pids:
                threading.Event().wait(1.0)
                stacks = planted == "sleeping" or len(runs) % 4 == 0
                read = measured(pids, given.minutes, stacks)
            runs.append({"planted": planted, "ranks": [[as_json(one) for one in some] for some in read]})
            print(f"{planted or 'calm'}: {len(runs)}", flush=True)
    slow = {"slow": SLOW, "runs": runs}
    RECORDED.write_text(json.dumps(slow, separators=(",", ":")).replace('{"planted"', '\n{"planted"') + "\n")


if __name__ == "__main__":
    main()
