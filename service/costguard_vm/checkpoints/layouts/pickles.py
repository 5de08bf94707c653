"""Facts out of a pickle that is never loaded: its opcodes are read, and nothing in it is called or imported."""

from __future__ import annotations

import hashlib
import pickletools
import zipfile
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, Union

from costguard_vm.checkpoints.layouts.base import FileChanged, HeldBytes, RangeReader, Ranges, TooLarge, Window
from costguard_vm.model.checkpoint import StoredFile

_MOST_BYTES = 64 << 20
_WORTH_KEEPING = 4096  # a longer text is no name
_MOST_LINES = 4096  # bytes of two lines that name a class
_MOST_NAMES = 1 << 20  # are remembered
_MOST_SHARDS = 8  # `.metadata` files whose shards are remembered
_SHARDS: dict[bytes, Mapping[str, int]] = {}
_CODES = {opcode.name: ord(opcode.code) for opcode in pickletools.opcodes}
# How wide each argument is; negative: as wide as that many bytes before it tell. Lines are not among them.
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: -1,
    pickletools.TAKEN_FROM_ARGUMENT4: -4,
    pickletools.TAKEN_FROM_ARGUMENT4U: -4,
    pickletools.TAKEN_FROM_ARGUMENT8U: -8,
}
_WIDTHS = {
    ord(opcode.code): 0 if opcode.arg is None else _LENGTHS.get(opcode.arg.n, opcode.arg.n)
    for opcode in pickletools.opcodes
    if opcode.arg is None or opcode.arg.n != pickletools.UP_TO_NEWLINE
}
MARK = _CODES["MARK"]
STOP = _CODES["STOP"]
PERSISTENT = _CODES["BINPERSID"]
_MEMOIZE = _CODES["MEMOIZE"]
_GLOBAL = _CODES["GLOBAL"]
_STACK_GLOBAL = _CODES["STACK_GLOBAL"]
_TEXTS = {_CODES[name] for name in ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")}
_TEXTS |= {_CODES[name] for name in ("SHORT_BINSTRING", "BINSTRING")}  # what Python 2 wrote
_SIGNED = {_CODES[name] for name in ("BININT", "LONG1", "LONG4")}
_NUMBERS = _SIGNED | {_CODES[name] for name in ("BININT1", "BININT2")}
_PUTS = {_CODES[name] for name in ("BINPUT", "LONG_BINPUT")}
_GETS = {_CODES[name] for name in ("BINGET", "LONG_BINGET")}


class Named(NamedTuple):
    """A class or function that a pickle names. It is never imported."""

    module: str
    name: str


Value = Union[str, int, Named, None]  # Python 3.8 knows no other way


class Bytes(Protocol):
    """The bytes that opcodes are read from. `part` leaves out what lies beyond the end."""

    size: int

    def part(self, begin: int, end: int) -> bytes: ...


class UnknownOpcode(Exception):
    """These bytes are no pickle, or of a protocol that stands in lines of text."""


class PickleToken(NamedTuple):
    """An opcode with the value that it puts down, where that is a text, a number or a name.

    `end` may lie beyond the file's.
    """

    code: int
    value: Value
    end: int


def values(pickled: bytes) -> Iterator[str | int]:
    """Every text and whole number in the order in which they are put together. Ends early where it is broken."""
    yield from _plain(HeldBytes(pickled), 0)


def tokens(source: Bytes, at: int = 0) -> Iterator[PickleToken]:
    """Each opcode, and what it puts down: also what it gets out of the memo. Raises UnknownOpcode and TooLarge.

    One that is cut off is the last, and its end lies beyond the source's.
    """
    memo: dict[int, Value] = {}
    puts = 0
    last: Value = None
    texts = ("", "")
    for code, begin, end in _steps(source, at):
        if end > source.size:
            yield PickleToken(code, None, end)
            return
        value: Value = None
        if code == _MEMOIZE or code in _PUTS:
            if last is not None:
                memo[puts if code == _MEMOIZE else _number(source.part(begin, end))] = last
            if len(memo) > _MOST_NAMES:
                raise TooLarge("its names")
            puts += 1
            yield PickleToken(code, None, end)
            continue
        if code in _TEXTS:
            value = source.part(begin, min(end, begin + _WORTH_KEEPING)).decode("utf-8", "replace")
        elif code in _NUMBERS:
            value = int.from_bytes(source.part(begin, end), "little", signed=code in _SIGNED)
        elif code == _GLOBAL:
            value = Named(*source.part(begin, end).decode("utf-8", "replace").split("\n")[:2])
        elif code == _STACK_GLOBAL:
            value = Named(*texts)
        elif code in _GETS:
            value = memo.get(_number(source.part(begin, end)))
        if isinstance(value, str):
            texts = texts[1], value
        if value is not None or begin == end:
            last = value
        yield PickleToken(code, value, end)


def _plain(source: Bytes, at: int) -> Iterator[str | int]:
    try:
        for token in tokens(source, at):
            if isinstance(token.value, (str, int)):
                yield token.value
    except UnknownOpcode:
        return


def _number(argument: bytes) -> int:
    return int.from_bytes(argument, "little")


def _steps(source: Bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Each opcode, and where its argument begins and ends; the last may be cut off. Raises UnknownOpcode."""
    while at < source.size:
        begin = at + 1
        code = source.part(at, begin)[0]
        width = _WIDTHS.get(code)
        if width is None:
            if code != _GLOBAL:
                raise UnknownOpcode(f"{code:#x} at {at}")
            at = _after_lines(source, begin)
        elif width < 0:  # the length stands before the argument
            begin -= width
            at = begin + _number(source.part(begin + width, begin))
        else:
            at = begin + width
        yield code, begin, at


def _after_lines(source: Bytes, begin: int) -> int:
    """Behind two lines, module and name. Beyond the end where they are cut off."""
    lines = source.part(begin, begin + _MOST_LINES)
    after = lines.find(b"\n", lines.find(b"\n") + 1) + 1 if lines.count(b"\n") > 1 else 0
    if not after and begin + _MOST_LINES < source.size:
        raise UnknownOpcode(f"no name at {begin}")
    return begin + after if after else source.size + 1


def end_of(source: Bytes, at: int) -> int | None:
    """Where the pickle that begins here ends, after its STOP; None where it is cut off. Raises UnknownOpcode."""
    for code, _, end in _steps(source, at):
        if end > source.size:
            return None
        if code == STOP:
            return end
    return None


def _is_whole(pickled: bytes) -> bool:
    """A STOP at the very end, and as an opcode: its byte is a full stop, which names are full of."""
    try:
        return end_of(HeldBytes(pickled), 0) == len(pickled)
    except UnknownOpcode:
        return False


def shards_of(file: StoredFile, reader: RangeReader) -> Mapping[str, int] | None:
    """Reads a `.metadata` of torch.distributed.checkpoint: each file, and the bytes it must have. None: broken.

    What a few of the last ones said is remembered by their SHA-256: a checkpoint is judged many times, at each look
    and by each node, and to read a megabyte of opcodes takes a third of a second.
    """
    if not 0 < file.size <= _MOST_BYTES:
        return None
    pickled = reader.read(file, 0, file.size)
    digest = hashlib.sha256(pickled).digest()
    sizes = _SHARDS.get(digest)
    if sizes is None and _is_whole(pickled):
        sizes = _shards(pickled)
        for oldest in list(_SHARDS)[: max(0, len(_SHARDS) + 1 - _MOST_SHARDS)]:
            _SHARDS.pop(oldest, None)
        _SHARDS[digest] = sizes
    return sizes


def _shards(pickled: bytes) -> dict[str, int]:
    sizes: dict[str, int] = {}
    path, offset, before = "", 0, None
    for value in values(pickled):
        if before == "relative_path" and isinstance(value, str):
            path = value
            sizes.setdefault(path, 0)
        elif before == "offset" and isinstance(value, int):
            offset = value
        elif before == "length" and isinstance(value, int) and path:
            sizes[path] = max(sizes[path], offset + value)
        before = value
    return sizes


def step_inside(file: StoredFile, reader: RangeReader) -> int | None:
    """The `global_step` of a file that torch.save wrote; None where it tells none."""
    return number_inside(file, reader, "global_step")


def number_inside(file: StoredFile, reader: RangeReader, key: str) -> int | None:
    """The number at `key` in what torch.save wrote into a file; None where it holds none."""
    try:
        if file.size and reader.read(file, 0, 1) == b"\x80":  # as before 1.6, not within a ZIP
            return _number_after(key, _plain(Window(file, reader), 0))
        with zipfile.ZipFile(Ranges(file, reader)) as opened:
            for name in opened.namelist():
                if name.endswith("/data.pkl") and opened.getinfo(name).file_size <= _MOST_BYTES:
                    return _number_after(key, values(opened.read(name)))
    except (
        FileChanged,
        TooLarge,
        zipfile.BadZipFile,
        ValueError,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        OverflowError,
    ):
        return None
    return None


def _number_after(key: str, values: Iterator[str | int]) -> int | None:
    before: str | int | None = None
    for value in values:
        if before == key and isinstance(value, int):
            return value
        before = value
    return None
