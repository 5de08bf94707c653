"""Plants faults in copies of the tree, one at a time, and runs the test that must fail. The tree stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


class Caught(StrEnum):
    """What became of a fault. Only a test that fails catches it."""

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
    """By pytest's exit status: 0 all passed, 1 tests failed, all others that they were not run."""
    return {0: Caught.NO, 1: Caught.YES}.get(code, Caught.BROKEN)


def copied(to: Path, of: Path = ROOT) -> Path:
    """A copy with the same times of change, so that what was compiled next to it stays good."""
    for name in _COPIED:
        source = of / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns(".hypothesis"))
        elif source.is_file():
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name)
    return to


def run_tests(copy: Path, *arguments: str) -> tuple[int, str]:
    """pytest's exit status and the end of what it wrote; -1 where it did not end."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line"]
    command += ["--hypothesis-profile=mutants", *arguments]
    # Commands that tests start must be of the copy too, and not of the tree that is installed.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy / "service"), str(copy)])}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=_LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return -1, f"It did not end within {_LONGEST_S} s."
    return done.returncode, (done.stdout + done.stderr)[-4000:]


def plant(fault: Fault, copy: Path) -> Result:
    """The fault in this copy for as long as its test runs."""
    source = copy / PRODUCT / fault.path
    compiled = source.parent / "__pycache__"
    good = source.read_bytes()
    begun = time.monotonic()
    try:
        # A file of the same size, written within the same second, would be taken for what was compiled before.
        _forget(compiled, source.stem)
        source.write_text(fault.planted(copy))
        code, output = run_tests(copy, "-n0", "-x", fault.test)
    finally:
        source.write_bytes(good)
        _forget(compiled, source.stem)
    caught = Caught.HUNG if code == -1 else caught_by(code)
    return Result(fault, caught, time.monotonic() - begun, output)


def plant_all(faults: Sequence[Fault], copies: Sequence[Path]) -> Iterator[Result]:
    """In as many copies at once as are given; in the order of the faults."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def planted(fault: Fault) -> Result:
        copy = free.get()
        try:
            return plant(fault, copy)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(planted, faults)


def _forget(compiled: Path, stem: str) -> None:
    for each in compiled.glob(f"{stem}.*.pyc"):
        each.unlink(missing_ok=True)
