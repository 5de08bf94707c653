"""The one check: format, lint, types, imports, rules of the house, and the tests. All run, whatever fails.

What stands after `python -m tests.check` goes to pytest: `-k ledger`, `tests/ledger`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests import house
from tests.in_memory import memory_folder

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
MOST_WORKERS = 8


@dataclass(frozen=True)
class Result:
    name: str
    ok: bool
    seconds: float
    output: str


def tool(*command: str) -> Callable[[], tuple[bool, str]]:
    def run() -> tuple[bool, str]:
        done = subprocess.run(
            [str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.returncode == 0, done.stdout + done.stderr

    return run


def rules() -> tuple[bool, str]:
    broken = house.broken_rules(ROOT)
    return not broken, "\n".join(broken)


STEPS: dict[str, Callable[[], tuple[bool, str]]] = {
    "types": tool("mypy", "--cache-dir=.cache/mypy"),  # first, for it takes longest
    "format": tool("ruff", "format", "--check", "--cache-dir=.cache/ruff", "."),
    "lint": tool("ruff", "check", "--cache-dir=.cache/ruff", "."),
    "imports": tool("lint-imports", "--config=tests/imports.toml", "--no-logo", "--cache-dir=.cache/imports"),
    "imports of jobs": tool(
        "lint-imports", "--config=tests/imports_of_jobs.toml", "--no-logo", "--cache-dir=.cache/imports"
    ),
    "imports of rooms": tool(
        "lint-imports", "--config=tests/imports_of_rooms.toml", "--no-logo", "--cache-dir=.cache/imports"
    ),
    "house": rules,
}


def read_once(arguments: list[str]) -> None:
    """Compile every test where that was never done: each worker would do so for itself, longer than all imports take.

    It prints nothing: the test run itself reports what is wrong.
    """
    if not any((ROOT / "tests" / "__pycache__").glob("test_*-pytest-*.pyc")):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", *arguments, "-n0"]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False)


def timed(name: str) -> Result:
    start = time.perf_counter()
    ok, output = STEPS[name]()
    return Result(name, ok, time.perf_counter() - start, output.strip())


@dataclass
class CheckReport:
    """Reports a check that outlasts the tests after them, before pytest's summary."""

    running: list[Future[Result]]
    failed: list[str] = field(default_factory=list)

    def tell(self, steps: list[Future[Result]], write: Callable[[str], None]) -> None:
        for step in steps:
            result = step.result()
            self.running.remove(step)
            write(f"{'ok' if result.ok else 'FAILED':6}  {result.name:8}{result.seconds:6.1f} s")
            if not result.ok:
                self.failed.append(result.name)
                write(result.output)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self.tell(list(self.running), terminalreporter.write_line)


def main(arguments: list[str]) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.chdir(ROOT)
    # Where nothing is written, each of the hundreds of processes that tests start compiles what changed once more.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with ThreadPoolExecutor(max(cores, 2)) as pool:
        types, *others = [pool.submit(timed, name) for name in STEPS]
        report = CheckReport([types, *others])
        pool.submit(read_once, arguments).result()
        # The types of a fresh checkout keep one core busy for most of a minute: the tests begin meanwhile.
        report.tell([types, *others] if types.done() else others, print)
        if report.failed:
            print(f"FAILED before the tests: {', '.join(report.failed)}. The tests run all the same.")
        sys.stdout.flush()
        if (folder := memory_folder()) is not None:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)  # where each test has its folder
        # pytest's summary is the last thing printed: continuous integration reads it.
        # Twice as many as there are cores: where agents, guards and demos are tested, a worker waits for them for more
        # than half of its time.
        workers = ["-n", str(min(2 * cores, MOST_WORKERS)), "--dist", "worksteal"]
        tests = int(pytest.main(["-q", *workers, *arguments], plugins=[report]))
        report.tell(list(report.running), print)  # where pytest came to no summary
    return tests or int(bool(report.failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
