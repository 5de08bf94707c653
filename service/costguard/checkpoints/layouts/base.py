"""What a layout is given, and what it answers. Layouts are pure: they see a listing, and read ranges of files.

They travel with the agent, which judges what lies on a VM's own disk: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Callable, Collection, Iterable, List, Mapping, Protocol, Sequence, TypeVar

from costguard.model.checkpoint import Framework, Listing, LookFor, StoredFile

T = TypeVar("T")
R = TypeVar("R")
Files = Mapping[str, StoredFile]
Problems = List[str]
MOST_RANKS = 1_000_000  # a number beyond is no rank


class FileChanged(Exception):
    """A file is not any more what the listing said: gone, or shorter."""


class Reader(Protocol):
    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        """Exactly these bytes. Raises FileChanged when they are not there any more, else CheckpointError."""
        ...

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        """Like map, perhaps several at the same time."""
        ...


@dataclass(frozen=True)
class Candidate:
    """Something that may be a checkpoint. `missing` is what its names alone show; `check` looks inside."""

    framework: Framework
    name: str
    resume_path: str  # below the location; empty for the location itself
    step: int | None
    files: Files
    missing: Sequence[str]
    check: Callable[[Reader], Problems]


class Tree:
    """A listing by its first level: the files that lie there, and each folder's files by their names within it."""

    def __init__(self, listing: Listing, look_for: LookFor, reader: Reader) -> None:
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


Layout = Callable[[Tree], Iterable[Candidate]]


def join(location: str, path: str) -> str:
    return f"{location.rstrip('/')}/{path}" if path else location


def last_number(name: str) -> int | None:
    """`step_000100-rc` is step 100; None where there is no number, or one too long to be a step."""
    found = re.findall(r"[0-9]+", name)
    return int(found[-1]) if found and len(found[-1]) <= 18 else None


def missing(files: Files, *names: str) -> list[str]:
    """A sentence for each of these that is not there or is empty."""
    return [
        f"{name} is missing." if name not in files else f"{name} is empty."
        for name in names
        if name not in files or not files[name].size
    ]


def gaps(numbers: Iterable[int]) -> list[int]:
    """The first numbers that lack between 0 and the largest."""
    held = set(numbers)
    largest = max(held, default=-1)
    return [largest] if largest >= MOST_RANKS else absent(held, largest)


def absent(held: Collection[int], largest: int, most: int = 100) -> list[int]:
    """The first of 0 to `largest` that are not held. A name may claim any rank, so not all are listed."""
    return list(islice((number for number in range(largest + 1) if number not in held), most))


def within(files: Files, folder: str) -> dict[str, StoredFile]:
    """The files of a folder, by their names within it."""
    head = f"{folder}/"
    return {name[len(head) :]: file for name, file in files.items() if name.startswith(head)}


def text_of(file: StoredFile | None, reader: Reader, most: int = 4096) -> str:
    """A small text file; empty where there is none any more."""
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
