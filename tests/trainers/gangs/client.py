"""A server of trainings of several processes, and one such training that is watched and killed, as VMs are lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.trainers.bench_client import ALONE, PYTHON, ROOT

_PATIENCE_S = 600.0  # a rank that waits for a lost one is killed long before
_NAP_S = 0.0005  # far less than any write to be hit


@dataclass(frozen=True)
class Shape:
    """`ranks` processes, `per_node` of them on each node; `is_shared`: all nodes write to one folder."""

    ranks: int
    per_node: int
    is_shared: bool = False

    @property
    def nodes(self) -> int:
        return self.ranks // self.per_node

    def folders(self, home: Path) -> list[Path]:
        """The folder of each node."""
        return [home / ("shared" if self.is_shared else f"node-{node}") for node in range(self.nodes)]


@dataclass(frozen=True)
class Moment:
    """The moment at which ranks are lost: `after_s` seconds after the begin of save number `save` of `watched`.

    `lost` are killed at once, and all others after `then_s`, as a guard ends a gang that has lost a VM.
    """

    watched: int
    save: int
    after_s: float
    lost: tuple[int, ...]
    then_s: float


@dataclass
class GangSave:
    """A save that was begun: what each rank saved, as a digest, and the ranks that reported it as done."""

    name: str
    step: int
    digests: dict[int, str]
    done: set[int]


@dataclass(frozen=True)
class GangRun:
    """The reports of a training's ranks until its end. `begins` are seconds, of rank 0."""

    saves: tuple[GangSave, ...]
    is_done: bool
    is_killed: bool
    error: str
    begins: tuple[float, ...]
    ends: tuple[float, ...]


class Server:
    """A module of `bench/gang`, imported once; each rank is a process that it forks."""

    def __init__(self, process: subprocess.Popen[str], out: Path) -> None:
        self._process, self._out = process, out
        self.kinds: list[str] = self._answer()["kinds"]

    def train(self, kind: str, shape: Shape, home: Path, moment: Moment | None = None) -> GangRun:
        folders = shape.folders(home)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        pids = self._begin(do="train", kind=kind, shape=shape, folders=folders)
        handles = [os.pidfd_open(pid) for pid in pids]  # a number may soon be another's
        watched = _Watched(self._out)
        waits = threading.Thread(target=self._answer)
        waits.start()
        nap, limit, is_killed = threading.Event(), time.monotonic() + _PATIENCE_S, False
        while waits.is_alive() and time.monotonic() < limit and not is_killed:
            watched.read()
            if moment is not None and watched.is_due(moment):
                _kill(handles, moment.lost)
                nap.wait(moment.then_s)
                is_killed = True
            nap.wait(_NAP_S)
        _kill(handles, range(shape.ranks))
        waits.join()
        for handle in handles:
            os.close(handle)
        watched.read()
        return watched.run(is_killed)

    def load(self, kind: str, shape: Shape, folder: Path, name: str) -> tuple[dict[int, str], str]:
        """The digest of what the framework gives each rank, and the first error."""
        self._begin(do="load", kind=kind, shape=shape, folders=[folder] * shape.nodes, name=name)
        self._answer()
        lines = [json.loads(line) for line in self._out.read_text().splitlines()]
        digests = {line["rank"]: line["digest"] for line in lines if line["what"] == "loaded"}
        return digests, next((line["digest"] for line in lines if line["what"] == "error"), "")

    def _begin(self, do: str, kind: str, shape: Shape, folders: Sequence[Path], name: str = "") -> list[int]:
        self._out.write_bytes(b"")
        request = {
            "do": do,
            "kind": kind,
            "name": name,
            "out": str(self._out),
            "ranks": shape.ranks,
            "per_node": shape.per_node,
            "port": free_port(),
            "folders": [str(folder) for folder in folders],
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        pids: list[int] = self._answer()["pids"]
        return pids

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server of trainings ended: see {self._out.with_suffix('.log')}")
        message: dict[str, Any] = json.loads(line)
        return message


def _kill(handles: Sequence[int], ranks: Sequence[int]) -> None:
    for rank in ranks:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handles[rank], signal.SIGKILL)


class _Watched:
    """The reports of all ranks of one training, as they come."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._read = 0
        self._messages: list[dict[str, Any]] = []
        self._times: list[float] = []
        self._began = time.monotonic()

    def read(self) -> None:
        with self._out.open("rb") as opened:
            opened.seek(self._read)
            lines = opened.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                break
            self._read += len(line)
            self._messages.append(json.loads(line))
            self._times.append(time.monotonic() - self._began)

    def is_due(self, moment: Moment) -> bool:
        begins = self._at("begin", moment.watched)
        return len(begins) > moment.save and time.monotonic() - self._began >= begins[moment.save] + moment.after_s

    def run(self, is_killed: bool) -> GangRun:
        saves: dict[str, GangSave] = {}
        for message in self._messages:
            if message["what"] == "begin":
                new = GangSave(message["name"], message["step"], {}, set())
                saves.setdefault(message["name"], new).digests[message["rank"]] = message["digest"]
            elif message["what"] == "end":
                next(one for one in saves.values() if one.step == message["step"]).done.add(message["rank"])
        what = [message["what"] for message in self._messages]
        error = next((message["digest"] for message in self._messages if message["what"] == "error"), "")
        ends = tuple(self._at("end", 0))
        return GangRun(tuple(saves.values()), "done" in what, is_killed, error, tuple(self._at("begin", 0)), ends)

    def _at(self, what: str, rank: int) -> list[float]:
        pairs = zip(self._messages, self._times, strict=True)
        return [at for message, at in pairs if message["what"] == what and message["rank"] == rank]


@contextmanager
def serving(module: str, folder: Path) -> Iterator[Server]:
    out = folder / f"{module}.out"
    with out.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.trainers.bench.gang.serve", module, str(free_port())],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **ALONE},
        )
        try:
            yield Server(process, out)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
