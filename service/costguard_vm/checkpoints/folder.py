"""A folder on this computer, listed and read. Travels with the agent, which looks at its VM's disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Callable, Sequence, TypeVar

from costguard_vm.checkpoints.layouts.base import FileChanged
from costguard_vm.model.checkpoint import LOGS_FOLDER, Listing, StoredFile, names_a_file

T = TypeVar("T")
R = TypeVar("R")
MOST_FILES = 200_000
_EPOCH = datetime.fromtimestamp(0, timezone.utc)


class TooManyFiles(Exception):
    """The folder holds too many files to list: it is no folder of one run's checkpoints."""


class Folder:
    """A folder, or one file. Links to files are followed; links to folders are not, as they may lead in circles.

    Raises OSError where the folder itself cannot be read. `shown_as` is its name in the listing.
    """

    def __init__(self, path: str, shown_as: str = "", most: int = MOST_FILES) -> None:
        self._path = path
        self._shown_as = shown_as or path
        self._most = most

    def listing(self) -> Listing:
        """Raises TooManyFiles."""
        if self._is_file():
            return self._alone()
        files: dict[str, StoredFile] = {}
        unread: list[str] = []
        for file in self._walk(unread):
            files[file.path] = file
            if len(files) > self._most:
                raise TooManyFiles
        return Listing(self._shown_as, dict(sorted(files.items())), tuple(sorted(unread)))

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        try:
            with open(os.path.join(self._root(), file.path), "rb") as opened:
                opened.seek(start)
                data = opened.read(length)
        except FileNotFoundError:
            raise FileChanged(file.path) from None
        if len(data) != length:
            raise FileChanged(file.path)
        return data

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]

    def _is_file(self) -> bool:
        """Says whether it is a file, also one that does not exist yet, in a folder that does."""
        is_folder = os.path.isdir(os.path.dirname(self._path))
        is_to_come = names_a_file(self._path) and is_folder and not os.path.exists(self._path)
        return os.path.isfile(self._path) or is_to_come

    def _root(self) -> str:
        return os.path.dirname(self._path) if os.path.isfile(self._path) else self._path

    def _alone(self) -> Listing:
        name = os.path.basename(self._path)
        with os.scandir(os.path.dirname(self._path)) as entries:
            entry = next((entry for entry in entries if entry.name == name), None)
        file = _file(entry, name) if entry is not None else None
        return Listing(self._shown_as, {} if file is None else {file.path: file}, is_file=True)

    def _walk(self, unread: list[str]) -> Iterator[StoredFile]:
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(os.path.join(self._path, folder)) as entries:
                    children = list(entries)
            except OSError as wrong:
                if not folder:
                    raise
                if not isinstance(wrong, FileNotFoundError):
                    unread.append(folder)
                continue
            for entry in children:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False) and path != LOGS_FOLDER:
                    waiting.append(path)
                elif (file := _file(entry, path)) is not None:
                    yield file


def _file(entry: os.DirEntry[str], path: str) -> StoredFile | None:
    """Reads an entry; None where it is gone by now or is no file: a socket, or a link to a folder or to nothing."""
    try:
        if not entry.is_file():
            return None
        stat = entry.stat()
    except OSError:
        return None
    # A name that is not UTF-8 is shown with its bytes written out; no layout has such names.
    shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    modified_at = _EPOCH + timedelta(microseconds=stat.st_mtime_ns // 1000)
    return StoredFile(shown, stat.st_size, f"{stat.st_ino}-{stat.st_mtime_ns}", modified_at)
