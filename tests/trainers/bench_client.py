"""A server of trainings in the trainers' environment, and one training in it that is watched and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".cache" / "trainers" / "venv" / "bin" / "python"
ALONE = {  # no GPU, no hub, one thread: two trainings compare, and the machine stays usable
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "JAX_PLATFORMS": "cpu",
    "KERAS_BACKEND": "torch",
    "OMP_NUM_THREADS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}
_PATIENCE_S = 300.0
_NAP_S = 0.0005  # far less than any write to be hit


@dataclass(frozen=True)
class Save:
    """A save that was begun, and whether it was reported as done."""

    step: int
    digest: str
    path: Path
    is_done: bool


@dataclass(frozen=True)
class Ran:
    """The reports of a training until its end. `at` are seconds from its start: of its begins and ends."""

    code: int
    saves: tuple[Save, ...]
    is_done: bool
    error: str
    begins: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()


class Server:
    """A module of `bench`, imported once; each training and each load is a process that it forks."""

    def __init__(self, process: subprocess.Popen[str], out: Path) -> None:
        self._process, self._out = process, out
        self.kinds: list[str] = self._answer()["kinds"]

    def train(
        self, kind: str, folder: Path, kill_at: float | None = None, in_save: tuple[int, float] | None = None
    ) -> Ran:
        """Trains, killed so many seconds after its start, or after the begin of its n-th save; by neither it ends by
        itself.
        """
        self._out.write_bytes(b"")
        self._ask(do="train", kind=kind, folder=str(folder))
        process = os.pidfd_open(int(self._answer()["pid"]))  # a number may soon be another's
        watched = _Watched(self._out)
        ended: list[int] = []
        waits = threading.Thread(target=lambda: ended.append(self._answer()["exit"]))
        waits.start()
        limit, nap = time.monotonic() + _PATIENCE_S, threading.Event()
        while waits.is_alive() and time.monotonic() < limit:
            watched.read()
            if watched.is_due(kill_at, in_save):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                break
            nap.wait(_NAP_S)
        waits.join(_PATIENCE_S)
        os.close(process)
        watched.read()
        return watched.ran(ended[0])

    def load(self, kind: str, path: Path) -> tuple[str, str]:
        """The digest of what the framework makes of it, and its error: one of them is empty."""
        self._out.write_bytes(b"")
        self._ask(do="load", kind=kind, path=str(path))
        self._answer()
        self._answer()
        lines = [json.loads(line) for line in self._out.read_text().splitlines()]
        last = next(
            (one for one in lines if one["what"] in ("loaded", "error")), {"what": "error", "digest": "it died"}
        )
        return (last["digest"], "") if last["what"] == "loaded" else ("", last["digest"])

    def _ask(self, **request: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"out": str(self._out), **request}) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server of trainings ended: see {self._out.with_suffix('.log')}")
        message: dict[str, Any] = json.loads(line)
        return message


class _Watched:
    """The reports of one training, as they come."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._read = 0
        self._messages: list[dict[str, Any]] = []
        self._began = time.monotonic()
        self.begins: list[float] = []
        self.ends: list[float] = []

    def read(self) -> None:
        with self._out.open("rb") as opened:
            opened.seek(self._read)
            lines = opened.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                break
            self._read += len(line)
            message = json.loads(line)
            self._messages.append(message)
            now = time.monotonic() - self._began
            if message["what"] == "start":
                self._began = time.monotonic()
            elif message["what"] == "begin":
                self.begins.append(now)
            elif message["what"] == "end":
                self.ends.append(now)

    def is_due(self, kill_at: float | None, in_save: tuple[int, float] | None) -> bool:
        now = time.monotonic() - self._began
        if in_save is not None:
            number, after = in_save
            return len(self.begins) > number and now >= self.begins[number] + after
        return kill_at is not None and bool(self._messages) and now >= kill_at

    def ran(self, code: int) -> Ran:
        saves: list[Save] = []
        for message in self._messages:
            if message["what"] == "begin":
                saves.append(Save(message["step"], message["digest"], Path(message["path"]), False))
            elif message["what"] == "end" and saves:
                last = saves[-1]
                saves[-1] = Save(last.step, last.digest, last.path, True)
        kinds = [message["what"] for message in self._messages]
        error = next((message["digest"] for message in self._messages if message["what"] == "error"), "")
        return Ran(code, tuple(saves), "done" in kinds, error, tuple(self.begins), tuple(self.ends))


@contextmanager
def serving(module: str, folder: Path) -> Iterator[Server]:
    out = folder / f"{module}.out"
    with out.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.trainers.bench.serve", module],
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
