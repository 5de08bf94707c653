"""The device that a training computes on: a GPU, or, without one, a process of its own that stands in for it.

The stand-in is like a GPU in what the rule looks at: work is queued for it, it is busy while the host goes on, the host
waits only when the queue is full or when it asks for a result, it takes nothing of the host's CPUs, and how long it was
busy is known exactly. For that it computes real steps only at first: each later one takes the time that those took.
It is unlike a GPU in all that tier 1 measures: it has no multiprocessors, no tensor cores and no memory of its own.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import torch
from tests.diagnosis.bounds.meter import Counters
from tests.diagnosis.bounds.models import Trained

_DEEP = 3  # steps that are queued at most


class StandIn:
    """The host's side of it."""

    def __init__(self, address: str) -> None:
        self._line: Connection[Any, Any] = Client(address, "AF_UNIX")
        self._queued = 0

    def launch(self, batch: torch.Tensor | None, pieces: int = 1) -> None:
        """Queues a step, or a part of one; None: on the batch that it has. Waits only while the queue is full."""
        self._line.send((None if batch is None else batch.numpy(), pieces))
        self._queued += 1
        while self._queued >= _DEEP:
            self._await()

    def synchronize(self) -> None:
        while self._queued:
            self._await()

    def _await(self) -> None:
        self._line.recv()
        self._queued -= 1


class Computing:
    """A device that computes itself: a GPU, or, to try the runs of a GPU without one, the CPU."""

    def __init__(self, kind: str, scale: float, half: bool, batch: torch.Tensor, name: str) -> None:
        self._trained, self._resident, self._name = Trained(kind, name, scale, half), batch.to(name), name

    def launch(self, batch: torch.Tensor | None, pieces: int = 1) -> None:
        resident = self._resident if batch is None else self._copied(batch)
        self._trained.step(resident if pieces == 1 else resident[: max(1, len(resident) // pieces)])

    def _copied(self, batch: torch.Tensor) -> torch.Tensor:
        return batch if self._name == "cpu" else batch.pin_memory().to(self._name, non_blocking=True)

    def synchronize(self) -> None:
        if self._name != "cpu":
            torch.cuda.synchronize()


def serve(address: str, kind: str, scale: float, counters: Path, batch: torch.Tensor) -> None:
    """Computes what it is sent, in order, until its host hangs up."""
    torch.set_num_threads(1)
    trained, meter, took_s = Trained(kind, "cpu", scale), Counters(counters, is_made=True), dict[int, float]()
    trained.step(batch)
    with Listener(address, "AF_UNIX") as listener:
        print("ready", flush=True)
        line = listener.accept()
    work: queue.Queue[Any] = queue.Queue(_DEEP)
    threading.Thread(target=_receive, args=(line, work), daemon=True).start()
    while (item := work.get()) is not None:
        sent, pieces = item
        if pieces not in took_s:
            given = batch if sent is None else torch.from_numpy(sent)
            took_s[pieces] = _step_s(trained, given if pieces == 1 else given[: max(1, len(given) // pieces)])
        meter.begin()
        time.sleep(took_s[pieces])  # noqa: TID251 - it is busy
        meter.end()
        line.send(True)


def _step_s(trained: Trained, batch: torch.Tensor) -> float:
    """The least of some: the rest of them waited for a CPU."""
    taken = []
    for _ in range(7):
        began = time.perf_counter()
        trained.step(batch)
        taken.append(time.perf_counter() - began)
    return min(taken)


def _receive(line: Connection[Any, Any], work: queue.Queue[Any]) -> None:
    try:
        while True:
            work.put(line.recv())
    except (EOFError, OSError):
        work.put(None)


if __name__ == "__main__":
    from tests.diagnosis.bounds.training import first_batch

    _, where, which, times, file = sys.argv
    serve(where, which, float(times), Path(file), first_batch(which))
