"""Memory of a process, by what Linux says of it."""

from __future__ import annotations

from pathlib import Path


def peak_mb() -> float:
    """The most memory that this process ever held, in MiB.

    Not `ru_maxrss`: Linux hands the peak of the process that started this one down with it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
