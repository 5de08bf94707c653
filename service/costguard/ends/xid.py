"""NVIDIA's Xid errors: which are the hardware's, and which a program causes. Pure.

docs.nvidia.com/deploy/xid-errors: the table of causes and its catalogue (read November 2026).
"""

from __future__ import annotations

import re

from costguard.ends.values import EndClass

_NUMBER = re.compile(r"Xid \([^)]*\): (\d+)|\bXid(?: error)?[ :]+(\d+)", re.IGNORECASE)
# "Graphics engine exception", "memory page fault", "illegal access by engine", "GPU stopped processing": a program's
# kernels, as NVIDIA says of each, far more often than the board.
_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 69, 145})
_MEANINGS = {
    48: "an error of the GPU's memory that ECC cannot correct",
    61: "the GPU's own controller stopped",
    62: "the GPU's own controller stopped",
    63: "a row of the GPU's memory is to be replaced",
    64: "a row of the GPU's memory could not be replaced",
    74: "an error of the link between GPUs (NVLink)",
    79: "the GPU has fallen off the bus",
    92: "many errors of the GPU's memory that ECC corrected",
    94: "an error of the GPU's memory, contained in one program",
    95: "an error of the GPU's memory that was not contained",
    109: "the GPU did not switch between programs in time",
    119: "the GPU's system processor does not answer",
    120: "the GPU's system processor failed",
    121: "an error of the link between GPU and CPU",
    140: "an error of the GPU's memory that ECC cannot correct",
    143: "the GPU could not be started",
    149: "an error of the link between GPUs (NVLink)",
    154: "the GPU must be reset",
}


def xid_of(line: str) -> int | None:
    match = _NUMBER.search(line)
    return int(match[1] or match[2]) if match else None


def xid_class(line: str) -> EndClass:
    """Returns the class of an Xid number; a number that NVIDIA gives no cause for here leaves the class open."""
    number = xid_of(line)
    if number in _OF_PROGRAMS:
        return EndClass.PROGRAM
    return EndClass.HARDWARE


def hardware_of_xid(line: str) -> str | None:
    number = xid_of(line)
    meaning = _MEANINGS.get(number) if number is not None else None
    return f"Xid {number}: {meaning}" if meaning else None
