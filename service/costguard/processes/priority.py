"""Decides which of Costguard's processes gives way: for the CPU, and where memory runs out."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def step_back(nicer_by: int, killed_first: int) -> None:
    """`killed_first`: the highest of all processes ends first. A system that refuses is left as it is."""
    with suppress(OSError):
        os.nice(nicer_by)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(killed_first), "ascii")
