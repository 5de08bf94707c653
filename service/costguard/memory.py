"""Returns memory to the system after many requests at once: C's allocator would keep it."""

from __future__ import annotations

import ctypes
from functools import cache

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h
_ARENAS = 2


def few_arenas() -> bool:
    """Has threads share two arenas: each of theirs would keep what its largest answer took. False without glibc."""
    libc = _glibc()
    return libc is not None and libc.mallopt(_ARENA_MAX, _ARENAS) == 1


def give_back() -> bool:
    """Gives memory back, and says whether any was; False without glibc. It may take some hundredths of a second."""
    libc = _glibc()
    return libc is not None and libc.malloc_trim(0) == 1


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        _ = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return libc
