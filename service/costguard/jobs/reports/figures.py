"""Takes the plain figures out of what an agent says of its machine."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

MOST_MACHINE = 16 << 10  # characters


def plain_figures(figures: Mapping[str, object]) -> dict[str, object]:
    """Keeps figures, and lists of things with figures, as for GPUs. Values nested deeper, or too many, are left out."""
    kept: dict[str, object] = {}
    size = 0
    for name, value in figures.items():
        plain = [_flat(part) for part in value if isinstance(part, Mapping)] if isinstance(value, list) else value
        size += len(name) + len(repr(plain))
        if size <= MOST_MACHINE and (isinstance(plain, list) or _is_plain(plain)):
            kept[name] = plain
    return kept


def _flat(figures: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in figures.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
