"""Plants faults in copies of the tree, one at a time, and runs the test that must fail. The tree stays as it is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.faults import PRODUCT, ROOT, Fault

_COPIED = ("service", "tests", "alembic", "deploy", "pyproject.toml", "README.md", "Makefile", "LICENSE")
_LONGEST_S = 900
_LONG_TOO = ("-m", "long or not long")  # what `make test` leaves to `make long` catches faults, too
# pytest would have rewritten the assertions of a plugin that was loaded before the fork.
_QUIET = ("-W", "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning")


class Caught(StrEnum):
    """The result of a planted fault. Only a test that fails catches it."""

    YES = "caught"
    NO = "survived"
    BROKEN = "broken"  # its test could not be run at all
    HUNG = "hung"


@dataclass(frozen=True)
class Result:
    fault: Fault
    caught: Caught
    seconds: float
    output: str


def caught_by(code: int) -> Caught:
    """Judges by pytest's exit status: 0 all passed, 1 tests failed, all others that they were not run."""
    return {0: Caught.NO, 1: Caught.YES}.get(code, Caught.BROKEN)


def copied(to: Path, root: Path = ROOT) -> Path:
    """A copy with the same times of change, so that what was compiled next to it stays good."""
    for name in _COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns(".hypothesis"))
        elif source.is_file():
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name)
    return to


class Runner:
    """Runs tests in one copy, by a process that has the libraries loaded."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        # Commands that tests start must be of the copy too, and not of the tree that is installed.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy / "service"), str(copy)])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.warm"],
            cwd=copy,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str) -> tuple[int, str]:
        """pytest's exit status and the end of what it wrote; below 0 where it did not end by itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        output = self.copy / "output.txt"
        all_of_them = [
            "-q",
            "--no-header",
            "--tb=line",
            "--hypothesis-profile=mutants",
            *_QUIET,
            *_LONG_TOO,
            *arguments,
        ]
        self._process.stdin.write(json.dumps({"arguments": all_of_them, "output": str(output)}) + "\n")
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        end = threading.Timer(_LONGEST_S, os.killpg, (child, signal.SIGKILL))
        end.start()
        code = int(self._process.stdout.readline())
        end.cancel()
        return code, output.read_text(errors="replace")[-4000:]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def plant(fault: Fault, run: Runner) -> Result:
    """The fault in the runner's copy for as long as its test runs."""
    source = run.copy / PRODUCT / fault.path
    compiled = source.parent / "__pycache__"
    good = source.read_bytes()
    begun = time.monotonic()
    try:
        # A file of the same size, written within the same second, would be taken for what was compiled before.
        _forget(compiled, source.stem)
        source.write_text(fault.planted(run.copy))
        code, output = run("-n0", "-x", fault.test)
    finally:
        source.write_bytes(good)
        _forget(compiled, source.stem)
    caught = Caught.HUNG if code < 0 else caught_by(code)
    return Result(fault, caught, time.monotonic() - begun, output)


def plant_all(faults: Sequence[Fault], runners: Sequence[Runner]) -> Iterator[Result]:
    """Plants as many faults at once as there are runners; in the order of the faults."""
    free: SimpleQueue[Runner] = SimpleQueue()
    for runner in runners:
        free.put(runner)

    def planted(fault: Fault) -> Result:
        runner = free.get()
        try:
            return plant(fault, runner)
        finally:
            free.put(runner)

    with ThreadPoolExecutor(len(runners)) as pool:
        yield from pool.map(planted, faults)


def _forget(compiled: Path, stem: str) -> None:
    for bytecode in compiled.glob(f"{stem}.*.pyc"):
        bytecode.unlink(missing_ok=True)
