"""Archives of code in a bucket or a folder, through obstore."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from costguard.checkpoints.buckets import READ_WRITE, StoreAccess, open_store
from costguard.checkpoints.location import Location, of_store, parse
from costguard.errors import CheckpointError, CheckpointLocationRefused
from costguard_vm.model.checkpoint import StoredFile

_PIECE = 4 << 20  # bytes of one request: a request's time limit covers its whole answer
_PAGE = 1000


class StoredArchives:
    """Implements `model.ports.Archives` at one location. The bucket must be there; a folder is made with `mode`."""

    def __init__(self, location: str, access: StoreAccess, mode: int = 0o777) -> None:
        self._where = parse(location)
        self._mode = mode
        self._access = replace(access, scope=READ_WRITE)
        self._opened: Any = None

    def find(self, name: str) -> StoredFile | None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            row = obstore.head(self._store(), self._path(name))
        except FileNotFoundError:
            return None
        except (BaseError, OSError, ValueError) as wrong:
            raise self._error(wrong) from wrong
        return _stored(name, row)

    def put(self, name: str, file: IO[bytes]) -> None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.put(self._store(), self._path(name), file)
        except (BaseError, OSError, ValueError) as wrong:
            error = self._error(wrong)
            if isinstance(error, CheckpointLocationRefused) and "may not be read" in error.message:
                raise CheckpointLocationRefused(
                    error.message.replace("may not be read", "may not be written"),
                    "Let the server write there: s3:PutObject, or the role Storage Object User.",
                ) from wrong
            raise error from wrong
        if self._where.scheme == "file":
            self._sync(name)

    def _sync(self, name: str) -> None:
        """A file and its name in its folder outlive a power cut; rows may go then that are nowhere else."""
        path = Path(self._where.path, name)
        try:
            for one in (path, path.parent, path.parent.parent):
                descriptor = os.open(one, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        except OSError as wrong:
            raise self._error(wrong) from wrong

    def read(self, stored: StoredFile) -> Iterator[bytes]:
        import obstore
        from obstore.exceptions import BaseError

        for start in range(0, stored.size, _PIECE):
            length = min(_PIECE, stored.size - start)
            try:
                yield bytes(obstore.get_range(self._store(), self._path(stored.path), start=start, length=length))
            except (BaseError, OSError, ValueError) as wrong:
                raise self._error(wrong) from wrong

    def listing(self) -> Sequence[StoredFile]:
        import obstore
        from obstore.exceptions import BaseError

        head = f"{self._prefix}/" if self._prefix else ""
        try:
            pages = obstore.list(self._store(), self._prefix or None, chunk_size=_PAGE)
            rows = [row for page in pages for row in page]
        except FileNotFoundError:
            return []
        except (BaseError, OSError, ValueError) as wrong:
            raise self._error(wrong) from wrong
        return [_stored(row["path"].removeprefix(head), row) for row in rows]

    def delete(self, name: str) -> None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.delete(self._store(), self._path(name))
        except FileNotFoundError:
            pass
        except (BaseError, OSError, ValueError) as wrong:
            raise self._error(wrong) from wrong

    @property
    def _prefix(self) -> str:
        return "" if self._where.scheme == "file" else self._where.path

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _store(self) -> Any:
        if self._opened is None:
            self._opened = (
                _folder(self._where, self._mode)
                if self._where.scheme == "file"
                else open_store(self._where, self._access)
            )
        return self._opened

    def _error(self, wrong: Exception) -> CheckpointError:
        if self._where.scheme == "file":
            text = str(wrong).partition(chr(10))[0][:200]
            return CheckpointLocationRefused(f"{self._where} cannot be used: {text}.", cure_of(text))
        return of_store(wrong, self._where)


def cure_of(text: str) -> str:
    """Returns the cure by the number of the operating system's error, which Rust writes as `(os error 28)`."""
    number = int(match[1]) if (match := re.search(r"\(os error (\d+)\)", text)) is not None else 0
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "The disk is full: free space on it, or name a folder on another one."
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Let the server write in this folder."
    return "See what is wrong with this folder, or name another one."


def _folder(where: Location, mode: int) -> Any:
    from obstore.store import LocalStore

    with suppress(OSError):  # the store says what is wrong with the folder
        Path(where.path).mkdir(mode, parents=True, exist_ok=True)
    return LocalStore(where.path, mkdir=True)


def _stored(name: str, row: Any) -> StoredFile:
    return StoredFile(name, row["size"], row["e_tag"] or row["last_modified"].isoformat(), row["last_modified"])
