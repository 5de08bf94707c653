"""The rclone that the guard serves to VMs which have none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PinnedRclone:
    """`machine` is what it is built for: the system and its architecture, such as linux-x86_64."""

    path: str
    sha256: str
    machine: str
