"""A stored file read by ranges: as the opcodes of a pickle want it, and as zipfile does. Memory stays small."""

from __future__ import annotations

import io

from costguard.checkpoints.layouts.base import FileChanged, Reader
from costguard.model.checkpoint import StoredFile

_FIRST, _NEXT = 1 << 16, 1 << 20  # bytes of a range; what is near the beginning is often all that is wanted
_MOST_BYTES = 256 << 20  # of one file
_MOST_ZIPPED = 64 << 20


class TooLarge(Exception):
    """More would have to be read than a verdict is worth."""


class Window:
    """Bytes by their place in the file; what lies beyond its end is left out. One range is held at a time."""

    def __init__(self, file: StoredFile, reader: Reader) -> None:
        self.size = file.size
        self._file, self._reader = file, reader
        self._begin, self._held = 0, b""
        self._left = _MOST_BYTES

    def part(self, begin: int, end: int) -> bytes:
        """Raises FileChanged and TooLarge."""
        end = min(end, self.size)
        if begin >= end:
            return b""
        if begin < self._begin or end > self._begin + len(self._held):
            self._fetch(begin, end)
        return self._held[begin - self._begin : end - self._begin]

    def _fetch(self, begin: int, end: int) -> None:
        until = min(self.size, max(end, begin + (_NEXT if begin else _FIRST)))
        self._left -= until - begin
        if self._left < 0:
            raise TooLarge(self._file.path)
        self._begin, self._held = begin, self._reader.read(self._file, begin, until - begin)
        if len(self._held) != until - begin:
            raise FileChanged(self._file.path)


class Held:
    """Bytes in memory, as a window."""

    def __init__(self, held: bytes) -> None:
        self.size = len(held)
        self._held = held

    def part(self, begin: int, end: int) -> bytes:
        return self._held[begin:end]


class Ranges(io.RawIOBase):
    """A stored file as zipfile wants it. Small reads are served from one larger one."""

    _AHEAD = 1 << 16

    def __init__(self, file: StoredFile, reader: Reader) -> None:
        self._file, self._reader = file, reader
        self._at = self._begin = 0
        self._held = b""
        self._left = _MOST_ZIPPED

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
