"""Reads in the figures of a GPU's out-of-memory message who holds the memory. Pure."""

from __future__ import annotations

import re

_UNITS = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0, "bytes": 1 / (1 << 20)}
_AMOUNT = r"([\d.]+)\s*(KiB|MiB|GiB|bytes)"
_TRIED = re.compile(rf"[Tt]ried to allocate {_AMOUNT}")
_TOTAL = re.compile(rf"(?:total capaci?ty(?: of)?|capacity of)\s*{_AMOUNT}|{_AMOUNT} total capacity")
_FREE = re.compile(rf"(?:of which )?{_AMOUNT} (?:is )?free")
_OWN = re.compile(rf"{_AMOUNT} (?:already allocated|is allocated by PyTorch)")
_RESERVED = re.compile(rf"{_AMOUNT} reserved in total by PyTorch")
_UNUSED = re.compile(rf"{_AMOUNT} is reserved by PyTorch but unallocated")
_OTHER = re.compile(rf"Process (\d+) has {_AMOUNT} memory in use")
_THIS = re.compile(rf"(?:this|This) process has {_AMOUNT} memory in use")

_MUCH = 0.15  # of the card: what others hold, or what lies unused, counts from here on
_MOST = 0.75  # of the card: then the program itself fills it


def memory_cause(message: str) -> str | None:
    """Names the holder of the GPU's memory; None where the figures do not show it.

    PyTorch's figures, old wording and new.
    """
    total = _amount(_TOTAL, message)
    if total is None or total <= 0:
        return None
    tried, own = _amount(_TRIED, message), _amount(_OWN, message)
    if tried is not None and tried > total:
        return f"one tensor of {_text(tried)} is larger than the GPU's {_text(total)}"
    others = sum(_mib(size, unit) for _, size, unit in _OTHER.findall(message)) if _THIS.search(message) else 0.0
    if others > _MUCH * total:
        return f"other processes hold {_text(others)} of the GPU's {_text(total)}"
    reserved, unused, free = _amount(_RESERVED, message), _amount(_UNUSED, message), _amount(_FREE, message)
    if reserved is not None and free is not None:
        outside = total - reserved - free
        if outside > _MUCH * total:
            return f"{_text(outside)} of the GPU's {_text(total)} are held outside this program's PyTorch"
        unused = reserved - own if own is not None else None
    if unused is not None and tried is not None and unused > max(tried, _MUCH * total):
        return f"fragmentation: {_text(unused)} that PyTorch holds are unused, and hold no {_text(tried)} in one piece"
    if own is not None and own > _MOST * total:
        return f"the program's own tensors fill the GPU: {_text(own)} of {_text(total)}"
    return None


def fills_the_gpu(cause: str) -> bool:
    """Says whether the program itself is too large for this GPU, so that the next attempt would be, too."""
    return cause.startswith(("the program's own tensors", "one tensor"))


def _amount(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    if match is None:
        return None
    size, unit = (part for part in match.groups() if part is not None)
    return _mib(size, unit)


def _mib(size: str, unit: str) -> float:
    try:
        return float(size.rstrip(".")) * _UNITS[unit]
    except ValueError:
        return 0.0


def _text(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"
