"""A program that the guard serves to VMs which have none of their own."""

from __future__ import annotations

from dataclasses import dataclass

RCLONE = "rclone"  # moves files
PY_SPY = "py-spy"  # reads the stacks of a Python process


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """`machine` is what it is built for: the system and its architecture, such as linux-x86_64."""

    path: str
    sha256: str
    machine: str
