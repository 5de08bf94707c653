"""A folder on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from costguard.checkpoints.errors import of_system
from costguard.checkpoints.layouts.base import FileChanged
from costguard.checkpoints.location import Location
from costguard.checkpoints.remote import MOST_FILES, too_many
from costguard.model.checkpoint import Listing, StoredFile

T = TypeVar("T")
R = TypeVar("R")


class LocalFolder:
    """Links to files count as what they lead to; links to folders are not followed, since they may lead in circles."""

    def __init__(self, where: Location, most: int = MOST_FILES) -> None:
        self._where = where
        self._most = most

    def listing(self) -> Listing:
        files: dict[str, StoredFile] = {}
        unread: list[str] = []
        for file in self._walk("", unread):
            files[file.path] = file
            if len(files) > self._most:
                raise too_many(self._where, self._most)
        return Listing(str(self._where), dict(sorted(files.items())), tuple(sorted(unread)))

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        try:
            with open(os.path.join(self._where.path, file.path), "rb") as opened:
                opened.seek(start)
                found = opened.read(length)
        except FileNotFoundError:
            raise FileChanged(file.path) from None
        except OSError as wrong:
            raise of_system(wrong, Location("file", "", os.path.join(self._where.path, file.path))) from wrong
        if len(found) != length:
            raise FileChanged(file.path)
        return found

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]

    def _walk(self, folder: str, unread: list[str]) -> Iterator[StoredFile]:
        waiting = [folder]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(os.path.join(self._where.path, folder)) as entries:
                    found = list(entries)
            except OSError as wrong:
                if not folder:
                    raise of_system(wrong, self._where) from wrong
                if not isinstance(wrong, FileNotFoundError):
                    unread.append(folder)
                continue
            for entry in found:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif (file := _file(entry, path)) is not None:
                    yield file


def _file(entry: os.DirEntry[str], path: str) -> StoredFile | None:
    """None for what is gone by now, and for what is no file: a socket, or a link to a folder or to nothing."""
    try:
        if not entry.is_file():
            return None
        told = entry.stat()
    except OSError:
        return None
    # A name that is not UTF-8 is shown with its bytes written out; nothing of ours is called so.
    shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    seconds, nanos = divmod(told.st_mtime_ns, 10**9)
    modified_at = datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=nanos // 1000)
    return StoredFile(shown, told.st_size, f"{told.st_ino}-{told.st_mtime_ns}", modified_at)
