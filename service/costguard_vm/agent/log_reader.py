"""Reads a log that is renamed when it is full, from its beginning on, each byte once."""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO, NamedTuple

CHUNK_BYTES = 256 << 10


class LogPlace(NamedTuple):
    """The place up to which a log was read: in which file, by its inode, which a renamed file keeps."""

    inode: int = 0  # 0: nothing was read yet
    offset: int = 0


class LogReader:
    """`lost`: files were rotated away before they were read, so that some output may be missing here."""

    def __init__(self, path: str, place: LogPlace = LogPlace()) -> None:
        self._path, self._inode = path, 0
        self._file: BinaryIO | None = None
        self.lost = False
        self._begin(place)

    @property
    def place(self) -> LogPlace:
        return LogPlace(self._inode, self._file.tell() if self._file is not None else 0)

    def read(self, most: int = CHUNK_BYTES) -> bytes:
        """The next bytes, at most so many; none where all was read so far."""
        while True:
            if self._file is None:
                self._begin(LogPlace())
            data = self._file.read(most) if self._file is not None else b""
            if data or not self._go_on():
                return data

    def newest(self, most: int) -> bytes:
        """All that is new, but only the end of it where that is more than `most` bytes."""
        kept = b""
        data = self.read()
        while data:
            kept = (kept + data)[-most:]
            data = self.read()
        return kept

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _begin(self, place: LogPlace) -> None:
        """Begins at a place of an earlier reader, or at the oldest file that is still there."""
        files = self._files()
        name = next((name for inode, name in files if inode == place.inode), "")
        self.lost = self.lost or bool(place.inode and not name)
        self._open(name or (files[0][1] if files else self._path))
        if name and self._file is not None:
            self._file.seek(place.offset)

    def _go_on(self) -> bool:
        """Moves to the next file.

        The open one stays the same file under any name, and is complete once it was renamed.
        """
        files = self._files()
        inodes = [inode for inode, _ in files]
        if not files or inodes[-1] == self._inode:
            return False
        assert self._file is not None
        if self._file.read(1):  # it grew between the last read and its rename
            self._file.seek(-1, os.SEEK_CUR)
            return True
        # One that is gone was renamed as often as there are files: the oldest may be the next one, or a later one.
        self.lost = self.lost or self._inode not in inodes
        self._open(files[inodes.index(self._inode) + 1][1] if self._inode in inodes else files[0][1])
        return self._file is not None

    def _open(self, path: str) -> None:
        self.close()
        with contextlib.suppress(OSError):
            self._file = open(path, "rb")  # noqa: SIM115  it stays open
            self._inode = os.fstat(self._file.fileno()).st_ino

    def _files(self) -> list[tuple[int, str]]:
        """The inodes and names of the log's files, the oldest first."""
        files: list[tuple[int, str]] = []
        number = 0
        while True:
            name = f"{self._path}.{number}" if number else self._path
            try:
                files.insert(0, (os.stat(name).st_ino, name))
            except OSError:
                if number:
                    return files
            number += 1
