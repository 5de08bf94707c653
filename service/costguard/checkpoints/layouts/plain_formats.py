"""Files that people save without a framework: pickles, NumPy arrays and tar archives, by what shows that they end."""

from __future__ import annotations

import ast
import re
from math import prod

from costguard.checkpoints.layouts.base import Reader
from costguard.checkpoints.layouts.pickles import UnknownOpcode, end_of
from costguard.checkpoints.layouts.ranges import TooLarge, Window
from costguard.model.checkpoint import StoredFile

NUMPY = b"\x93NUMPY"
_TYPE = re.compile(r"[<>|=]?[?biufcmMSUV]([0-9]*)(?:\[[^\]]*\])?")
_BLOCK = 512  # of a tar
_MOST_HEADER = 1 << 20
_MOST_MEMBERS = 10_000


def is_tar(begin: bytes) -> bool:
    return begin[257:262] == b"ustar"


def pickle_problem(file: StoredFile, name: str, reader: Reader) -> str:
    """Pickles one after another. What follows the last of them, and is none, is left alone."""
    source = Window(file, reader)
    at: int | None = 0
    try:
        while at is not None and at < file.size and source.part(at, at + 1) == b"\x80":
            at = end_of(source, at)
    except (UnknownOpcode, TooLarge):  # joblib puts raw arrays within its pickle; its last opcode is STOP all the same
        at = file.size if source.part(file.size - 1, file.size) == b"." else None
    return "" if at is not None else f"{name} ends before the STOP of its pickle: it was cut off, or is still written."


def numpy_problem(file: StoredFile, name: str, reader: Reader) -> str:
    """The header tells type and shape. Source: numpy/lib/format.py, "Format Version 1.0" and later."""
    source = Window(file, reader)
    start = source.part(0, 12)
    wide = 2 if start[6:7] == b"\x01" else 4
    length = int.from_bytes(start[8 : 8 + wide], "little")
    begin = 8 + wide + length
    if len(start) < 12 or begin > file.size:
        return f"{name} ends within its header."
    if length > _MOST_HEADER:
        return f"{name} has a header that cannot be read."
    try:
        header = ast.literal_eval(source.part(8 + wide, begin).decode("latin-1").strip())
        described, shape = header["descr"], header["shape"]
        count = prod(int(each) for each in shape)
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError):
        return f"{name} has a header that cannot be read."
    matched = _TYPE.fullmatch(described) if isinstance(described, str) else None
    if matched is None:  # objects are pickled, and fields have widths of their own
        return ""
    width = int(matched[1] or 1) * (4 if "U" in described else 1)
    whole = begin + width * count
    return "" if file.size >= whole else f"{name} is {file.size} bytes long, and its header tells {whole}."


def tar_problem(file: StoredFile, name: str, reader: Reader) -> str:
    """Each member tells its size; two empty blocks end it. PyTorch saved so before 0.1.10."""
    source = Window(file, reader)
    at = 0
    for _ in range(_MOST_MEMBERS):
        block = source.part(at, at + _BLOCK)
        if len(block) < _BLOCK:
            return f"{name} ends without the mark of its end: it was cut off, or is still written."
        if not any(block):
            return ""
        size = _tar_size(block[124:136])
        if size is None:
            return f"{name} has a member at {at} that cannot be read."
        at += _BLOCK + -(-size // _BLOCK) * _BLOCK
    return ""


def _tar_size(field: bytes) -> int | None:
    """Octal digits; past 8 GiB a number with its first bit set."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ((1 << 95) - 1)
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        return None
