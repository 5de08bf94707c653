"""The one check: format, lint, types, imports, rules of the house, then the tests. All run, whatever fails.

What stands after `python -m tests.check` goes to pytest: `-k ledger`, `tests/policy`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import house

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
    "types": tool("mypy", "--cache-dir=.cache/mypy"),
    "format": tool("ruff", "format", "--check", "--cache-dir=.cache/ruff", "."),
    "lint": tool("ruff", "check", "--cache-dir=.cache/ruff", "."),
    "imports": tool("lint-imports", "--no-logo", "--cache-dir=.cache/imports"),
    "house": rules,
}


def timed(name: str) -> Result:
    start = time.perf_counter()
    ok, output = STEPS[name]()
    return Result(name, ok, time.perf_counter() - start, output.strip())


def main(arguments: list[str]) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        results = list(pool.map(timed, STEPS))
    for result in results:
        print(f"{'ok' if result.ok else 'FAILED':6}  {result.name:8}{result.seconds:6.1f} s")
        if not result.ok:
            print(result.output)
    failed = [result.name for result in results if not result.ok]
    if failed:
        print(f"FAILED before the tests: {', '.join(failed)}. The tests run all the same.")
    sys.stdout.flush()
    # pytest's summary is the last thing printed: continuous integration reads it.
    # Half as many again as there are cores: where processes and sockets are tested, a worker mostly waits for them.
    workers = ["-n", str(min(cores + cores // 2, MOST_WORKERS)), "--dist", "worksteal"]
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q", *workers, *arguments], cwd=ROOT, check=False)
    return tests.returncode or int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
