"""What the command prints: kept in files that are renamed when full, and the end of it for the guard."""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO

from .files import say


class Log:
    """A file that is renamed when it is full. A full disk loses output, never the command."""

    def __init__(self, path: str, most_bytes: int, files: int) -> None:
        self._path, self._most, self._files = path, most_bytes, max(2, files)
        self._file = self._open()

    def write(self, data: bytes) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            if 0 < self._file.tell() > self._most - len(data):
                self._file.close()
                self._rename()
                self._file = self._open()
            if self._file is not None:
                self._file.write(data)

    def _rename(self) -> None:
        for number in range(self._files - 1, 0, -1):
            younger = self._path if number == 1 else f"{self._path}.{number - 1}"
            if os.path.exists(younger):
                os.replace(younger, f"{self._path}.{number}")

    def _open(self) -> BinaryIO | None:
        try:
            return open(self._path, "ab", buffering=0)
        except OSError as error:
            say(f"the command's output is not kept: {error}")
            return None


def pump(source: int, log: Log, hidden: list[bytes]) -> None:
    """Until the last process that holds the command's output has ended. Secrets become stars, also torn ones."""
    held = b""
    while True:
        data = os.read(source, 65536)
        held += data
        for secret in hidden:
            held = held.replace(secret, b"***")
        longest = min(len(held), max(map(len, hidden), default=1) - 1) if data else 0
        keep = next((n for n in range(longest, 0, -1) if any(s.startswith(held[-n:]) for s in hidden)), 0)
        log.write(held[: len(held) - keep])
        held = held[len(held) - keep :]
        if not data:
            return


def tail(path: str, most_bytes: int) -> str:
    """The end of a log that may just have been rotated."""
    found = b""
    for name in (path, path + ".1"):
        wanted = most_bytes - len(found)
        with contextlib.suppress(OSError), open(name, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - wanted))
            found = file.read(wanted) + found
    return found.decode("utf-8", "replace")


def last_lines(text: str, most_lines: int, most_bytes: int) -> list[str]:
    """Whole lines, as a terminal would show them: a progress bar overwrites itself."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n")]
    kept: list[str] = []
    for line in reversed(lines[-most_lines:]):
        short = line[:most_bytes]
        most_bytes -= len(short) + 1
        kept.insert(0, short)
        if most_bytes <= 0:
            break
    return kept if kept != [""] else []
