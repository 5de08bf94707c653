"""Counts and lists in words."""

from __future__ import annotations

from collections.abc import Sequence


def count_text(number: int, one: str, many: str = "") -> str:
    """`1 zone`, `3 zones`, `1,200 VMs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def list_text(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(count: int) -> str:
    """`0 bytes`, `1.5 GiB`."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} {'byte' if count == 1 else 'bytes'}"
