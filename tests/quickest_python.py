"""Prints the interpreter that `make` builds its environment with: of those on the PATH, the quickest of one version.

Builds of one version differ. Without --enable-optimizations and as a shared library, as pyenv compiles 3.11, the tests
of jobs/submit, spend and the ledger took 27.8 s of CPU, and 23.5 s with Debian's build (30 November 2026, the same
libraries).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Records, context managers and text, as most code has them. An interpreter that cannot make an environment, or lacks
# what Costguard imports, fails before it prints its seconds of CPU.
_MEASURE = """
import contextlib, ctypes, dataclasses, ensurepip, sqlite3, ssl, time, venv
@dataclasses.dataclass(frozen=True)
class Record:
    number: int
    text: str = ""
@contextlib.contextmanager
def entered(record):
    yield dataclasses.replace(record, text="-".join(str(part) for part in (record.number, record.text)))
def seconds():
    start = time.process_time()
    for number in range(5_000):
        with entered(Record(number, text="part")) as record:
            record.text.split("-")
    return time.process_time() - start
print(min(seconds() for _ in range(7)))
"""
_GAIN = 0.92  # of the first one's time: what differs by less is the same build, measured twice
_LONGEST_S = 60


def named(name: str, path: str) -> list[str]:
    """Returns the programs of this name in the folders of a PATH, in its order."""
    places = [Path(folder, name) for folder in path.split(os.pathsep) if folder]
    return [str(place) for place in places if place.is_file() and os.access(place, os.X_OK)]


def seconds_of(python: str) -> float | None:
    """Returns how long the measured work takes, in seconds of CPU. None: it cannot make an environment."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _MEASURE], capture_output=True, text=True, timeout=_LONGEST_S, check=True
        )
        return float(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def quickest(pythons: list[str]) -> str:
    """Returns the first of these, or another one that is clearly quicker. The list has one at least."""
    measured = {python: seconds for python in pythons if (seconds := seconds_of(python)) is not None}
    if not measured:
        return pythons[0]
    first, best = next(iter(measured)), min(measured, key=lambda python: measured[python])
    return best if measured[best] < _GAIN * measured[first] else first


if __name__ == "__main__":
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    print(quickest([sys.executable, *named(version, os.environ.get("PATH", ""))]))
