"""Whether a VM's disk is full, or will be before long, from what its agent measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from costguard.model.attempt import Exit

FULL_BYTES = 1 << 20  # with less nothing of use can be written
_LOW_SHARE = 10  # percent
_LOW_MOST = 20 << 30  # bytes: on a large disk a tenth is plenty
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class DiskState(StrEnum):
    OK = "ok"
    LOW = "low"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Disk:
    """`text` is empty while there is room."""

    state: DiskState
    mount: str
    free: int  # bytes
    total: int | None
    text: str


def disk_of(machine: Mapping[str, object]) -> Disk | None:
    """By the figures of an agent's heartbeat; None where it does not tell what is free."""
    free, total, mount = (machine.get(f"disk_{name}") for name in ("free_bytes", "total_bytes", "mount"))
    if not isinstance(free, int) or isinstance(free, bool) or free < 0:
        return None
    whole = total if isinstance(total, int) and total > 0 else None
    where = mount if isinstance(mount, str) and mount else "/"
    if free < FULL_BYTES:
        return Disk(DiskState.FULL, where, free, whole, full_text(free, where))
    if whole is not None and free < min(whole * _LOW_SHARE // 100, _LOW_MOST):
        text = f"disk nearly full: {size(free)} of {size(whole)} left on {where}"
        return Disk(DiskState.LOW, where, free, whole, text)
    return Disk(DiskState.OK, where, free, whole, "")


def filled(end: Exit) -> str:
    """Why a command may have failed: `disk full: 0 bytes left on /`; "" where there was room, or nobody knows."""
    if end.disk_free is None or end.disk_free >= FULL_BYTES:
        return ""
    return full_text(end.disk_free, end.disk_mount or "/")


def full_text(free: int, mount: str) -> str:
    return f"disk full: {size(free)} left on {mount}"


def size(count: int) -> str:
    """`0 bytes`, `1.5 GiB`."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} {'byte' if count == 1 else 'bytes'}"
