"""Facts out of a pickle that is never loaded: its opcodes are read, and nothing in it is called or imported."""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Iterator

from costguard.checkpoints.layouts.base import FileChanged, Reader
from costguard.model.checkpoint import StoredFile

_MOST_BYTES = 64 << 20
_WORTH_KEEPING = 4096  # a longer text is no name
_CODES = {each.name: ord(each.code) for each in pickletools.opcodes}
# How wide each argument is; negative: as wide as that many bytes before it tell. Lines are not among them.
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: -1,
    pickletools.TAKEN_FROM_ARGUMENT4: -4,
    pickletools.TAKEN_FROM_ARGUMENT4U: -4,
    pickletools.TAKEN_FROM_ARGUMENT8U: -8,
}
_WIDTHS = {
    ord(each.code): 0 if each.arg is None else _LENGTHS.get(each.arg.n, each.arg.n)
    for each in pickletools.opcodes
    if each.arg is None or each.arg.n != pickletools.UP_TO_NEWLINE
}
_MEMOIZE = _CODES["MEMOIZE"]
_GLOBAL = _CODES["GLOBAL"]
_STOP = _CODES["STOP"]
_TEXTS = {_CODES[name] for name in ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")}
_SIGNED = {_CODES[name] for name in ("BININT", "LONG1", "LONG4")}
_NUMBERS = _SIGNED | {_CODES[name] for name in ("BININT1", "BININT2")}
_PUTS = {_CODES[name] for name in ("BINPUT", "LONG_BINPUT")}
_GETS = {_CODES[name] for name in ("BINGET", "LONG_BINGET")}


def values(pickled: bytes) -> Iterator[str | int]:
    """Every text and whole number in the order in which they are put together. Ends early where it is broken."""
    memo: dict[int, str | int | None] = {}
    last: str | int | None = None
    for code, begin, end in _steps(pickled):
        if code == _MEMOIZE:
            memo[len(memo)] = last
        elif code == _GLOBAL or begin == end:
            last = None
        elif code in _PUTS:
            memo[int.from_bytes(pickled[begin:end], "little")] = last
        elif code in _TEXTS:
            last = pickled[begin : min(end, begin + _WORTH_KEEPING)].decode("utf-8", "replace")
            yield last
        elif code in _NUMBERS:
            last = int.from_bytes(pickled[begin:end], "little", signed=code in _SIGNED)
            yield last
        elif code in _GETS:
            last = memo.get(int.from_bytes(pickled[begin:end], "little"))
            if last is not None:
                yield last


def _steps(pickled: bytes) -> Iterator[tuple[int, int, int]]:
    """Each opcode, and where its argument begins and ends. Ends early where it is broken; the last may be cut off."""
    at = 0
    while at < len(pickled):
        code = pickled[at]
        begin = at + 1
        width = _WIDTHS.get(code)
        if width is None:
            if code != _GLOBAL:
                return
            at = pickled.find(b"\n", pickled.find(b"\n", begin) + 1) + 1 or len(pickled)  # two lines: module and name
        elif width < 0:  # the length stands before the argument
            begin -= width
            at = begin + int.from_bytes(pickled[begin + width : begin], "little")
        else:
            at = begin + width
        yield code, begin, at


def _is_whole(pickled: bytes) -> bool:
    """A STOP at the very end, and as an opcode: its byte is a full stop, which names are full of."""
    last = (0, 0)
    for code, _, end in _steps(pickled):
        last = code, end
    return last == (_STOP, len(pickled))


def shards_of(file: StoredFile, reader: Reader) -> dict[str, int] | None:
    """What a `.metadata` of torch.distributed.checkpoint says: each file, and the bytes it must have. None: broken."""
    if not 0 < file.size <= _MOST_BYTES:
        return None
    pickled = reader.read(file, 0, file.size)
    if not _is_whole(pickled):
        return None
    found: dict[str, int] = {}
    path, offset, before = "", 0, None
    for value in values(pickled):
        if before == "relative_path" and isinstance(value, str):
            path = value
            found.setdefault(path, 0)
        elif before == "offset" and isinstance(value, int):
            offset = value
        elif before == "length" and isinstance(value, int) and path:
            found[path] = max(found[path], offset + value)
        before = value
    return found


def step_inside(file: StoredFile, reader: Reader) -> int | None:
    """The `global_step` of a file that torch.save wrote; None where it tells none."""
    try:
        with zipfile.ZipFile(_Ranges(file, reader)) as opened:
            for name in opened.namelist():
                if name.endswith("/data.pkl") and opened.getinfo(name).file_size <= _MOST_BYTES:
                    before: str | int | None = None
                    for value in values(opened.read(name)):
                        if before == "global_step" and isinstance(value, int):
                            return value
                        before = value
    except (
        FileChanged,
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


class _Ranges(io.RawIOBase):
    """A stored file as zipfile wants it. Small reads are served from one larger one."""

    _AHEAD = 1 << 16

    def __init__(self, file: StoredFile, reader: Reader) -> None:
        self._file, self._reader = file, reader
        self._at = self._begin = 0
        self._held = b""
        self._left = _MOST_BYTES

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        if base + offset < 0:
            raise ValueError("before the beginning")
        self._at = base + offset
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        end = self._file.size if size < 0 else min(self._at + size, self._file.size)
        if end <= self._at:
            return b""
        if not (self._begin <= self._at and end <= self._begin + len(self._held)):
            self._fetch(end)
        found = self._held[self._at - self._begin : end - self._begin]
        self._at = end
        return found

    def _fetch(self, end: int) -> None:
        """From here to `end` and some more; at the file's end, also what stands before."""
        begin = max(0, min(self._at, self._file.size - self._AHEAD))
        until = min(self._file.size, max(end, begin + self._AHEAD))
        self._left -= until - begin
        if self._left < 0:
            raise ValueError("more than would be read for one number")
        self._begin, self._held = begin, self._reader.read(self._file, begin, until - begin)
        if len(self._held) != until - begin:
            raise FileChanged(self._file.path)
