"""Parts that layouts share: a listing as a tree, ranges of files, and the candidates that they return.

Layouts are pure. They travel with the agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Callable, Collection, Iterable, List, Mapping, Protocol, Sequence, TypeVar

from costguard_vm.model.checkpoint import Framework, Listing, LookFor, StoredFile

_FIRST, _NEXT = 1 << 16, 1 << 20  # bytes of a range; what is near the beginning is often all that is wanted
_MOST_BYTES = 256 << 20  # of one file
_MOST_ZIPPED = 64 << 20


class TooLarge(Exception):
    """The amount of data to read is too large."""


class Window:
    """Bytes of a stored file by their place. One range is held in memory; bytes beyond the end are left out."""

    def __init__(self, file: StoredFile, reader: RangeReader) -> None:
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


class HeldBytes:
    """Bytes in memory, read like a window."""

    def __init__(self, held: bytes) -> None:
        self.size = len(held)
        self._held = held

    def part(self, begin: int, end: int) -> bytes:
        return self._held[begin:end]


class Ranges(io.RawIOBase):
    """A stored file for zipfile. Small reads are served from one larger range."""

    _AHEAD = 1 << 16

    def __init__(self, file: StoredFile, reader: RangeReader) -> None:
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
        data = self._held[self._at - self._begin : end - self._begin]
        self._at = end
        return data

    def _fetch(self, end: int) -> None:
        """Reads on to `end` and some more; near the file's end, also what is before."""
        begin = max(0, min(self._at, self._file.size - self._AHEAD))
        until = min(self._file.size, max(end, begin + self._AHEAD))
        self._left -= until - begin
        if self._left < 0:
            raise ValueError("more than would be read for one number")
        self._begin, self._held = begin, self._reader.read(self._file, begin, until - begin)
        if len(self._held) != until - begin:
            raise FileChanged(self._file.path)


T = TypeVar("T")
R = TypeVar("R")
Files = Mapping[str, StoredFile]
Problems = List[str]
MOST_RANKS = 1_000_000  # a larger number is no rank


class Lacking(str):
    """A sentence about files that are missing, short or cut off; `names` has all of them, however few it lists."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, sentence: str, *names: str) -> Lacking:
        made = cls(sentence)
        made.names = names
        return made

    def inside(self, folder: str) -> Lacking:
        """The same of files in a folder, which the sentence begins with."""
        return Lacking.of(f"{folder}: {self}", *(f"{folder}/{name}" for name in self.names))


def inside(folder: str, problems: Iterable[str]) -> Problems:
    """The problems of a folder within a checkpoint, each with the folder's name before it."""
    return [one.inside(folder) if isinstance(one, Lacking) else f"{folder}: {one}" for one in problems]


def lost_files(problems: Iterable[str]) -> list[str]:
    """The files that are missing or not whole, by their names in the checkpoint; each once, in order."""
    return list(dict.fromkeys(name for one in problems if isinstance(one, Lacking) for name in one.names))


class FileChanged(Exception):
    """A file is not as the listing said any more: gone, or shorter."""


class RangeReader(Protocol):
    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        """Exactly these bytes. Raises FileChanged where they are gone, else CheckpointError."""
        ...

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        """Applies `work` to each item like map, perhaps several at the same time."""
        ...


class Vouching:
    """A reader that knows of some files whether they are whole: another VM has read them by these rules."""

    def problem(self, file: StoredFile) -> str | None:
        """Returns what is wrong with it, "" for a whole one; None where it has to be read."""
        raise NotImplementedError


@dataclass(frozen=True)
class CandidateCheckpoint:
    """A possible checkpoint. `missing` is what its names alone show; `check` reads its files."""

    framework: Framework
    name: str
    resume_path: str  # below the location; empty for the location itself
    step: int | None
    files: Files
    missing: Sequence[str]
    check: Callable[[RangeReader], Problems]


class Tree:
    """A listing by its first level: its files, and each folder's files by their names in it."""

    def __init__(self, listing: Listing, look_for: LookFor, reader: RangeReader) -> None:
        self.listing, self.look_for, self.reader = listing, look_for, reader
        self.files: dict[str, StoredFile] = {}
        self.folders: dict[str, dict[str, StoredFile]] = {}
        for path, file in listing.files.items():
            first, slash, rest = path.partition("/")
            if slash:
                self.folders.setdefault(first, {})[rest] = file
            else:
                self.files[path] = file

    @cached_property
    def is_gcs(self) -> bool:
        return self.listing.location.startswith("gs:")


Layout = Callable[[Tree], Iterable[CandidateCheckpoint]]


def join(location: str, path: str) -> str:
    return f"{location.rstrip('/')}/{path}" if path else location


def last_number(name: str) -> int | None:
    """100 for `step_000100-rc`; None where there is no number, or one too long to be a step."""
    numbers = re.findall(r"[0-9]+", name)
    return int(numbers[-1]) if numbers and len(numbers[-1]) <= 18 else None


def missing(files: Files, *names: str) -> list[str]:
    """A sentence for each of these that is missing or empty."""
    return [
        Lacking.of(f"{name} is missing." if name not in files else f"{name} is empty.", name)
        for name in names
        if name not in files or not files[name].size
    ]


def gaps(numbers: Iterable[int]) -> list[int]:
    """The first numbers that are missing between 0 and the largest."""
    held = set(numbers)
    largest = max(held, default=-1)
    return [largest] if largest >= MOST_RANKS else absent(held, largest)


def absent(held: Collection[int], largest: int, most: int = 100) -> list[int]:
    """The first numbers from 0 to `largest` that are not held. A name may claim any rank, so not all are listed."""
    return list(islice((number for number in range(largest + 1) if number not in held), most))


def within(files: Files, folder: str) -> dict[str, StoredFile]:
    """The files of a folder, by their names in it."""
    head = f"{folder}/"
    return {name[len(head) :]: file for name, file in files.items() if name.startswith(head)}


def text_of(file: StoredFile | None, reader: RangeReader, most: int = 4096) -> str:
    """The content of a small text file; "" where it is gone."""
    if file is None or not 0 < file.size <= most:
        return ""
    try:
        return reader.read(file, 0, file.size).decode("utf-8", "replace").strip()
    except FileChanged:
        return ""


def listed(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 5 more`."""
    more = len(names) - most
    shown = ", ".join(names[:most])
    return f"{shown} and {more} more" if more > 0 else shown
