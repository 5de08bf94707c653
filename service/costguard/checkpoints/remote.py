"""A bucket, through obstore: a listing page by page, and ranges of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from costguard.checkpoints.errors import of_store
from costguard.checkpoints.folder import MOST_FILES
from costguard.checkpoints.layouts.base import FileChanged
from costguard.checkpoints.location import Location
from costguard.errors import CheckpointLocationWrong
from costguard.model.checkpoint import Listing, StoredFile, names_a_file

T = TypeVar("T")
R = TypeVar("R")
_PAGE = 1000
_AT_ONCE = 16


def too_many(where: Location, most: int) -> CheckpointLocationWrong:
    return CheckpointLocationWrong(
        f"{where} holds more than {most:,} files.", "Name the folder of one run, and keep data elsewhere."
    )


class Bucket:
    """`store` is one of obstore's stores."""

    def __init__(self, where: Location, store: Any, most: int = MOST_FILES) -> None:
        self._where = where
        self._most = most
        self._store = store
        self._head = f"{where.path}/" if where.path else ""

    def listing(self) -> Listing:
        """Everything below the location; where there is nothing, and its name is a file's, that object."""
        found = self._below()
        is_file = names_a_file(self._where.path) and not (found.files or found.unread)
        return self._alone() if is_file else found

    def _alone(self) -> Listing:
        import obstore
        from obstore.exceptions import BaseError

        folder, slash, name = self._where.path.rpartition("/")
        try:
            row = obstore.head(self._store, self._where.path)
        except FileNotFoundError:
            return Listing(str(self._where), {}, is_file=True)
        except (BaseError, OSError, ValueError) as wrong:
            raise of_store(wrong, self._where) from wrong
        self._head = folder + slash  # from here on names are read beside it
        tag = row["e_tag"] or row["last_modified"].isoformat()
        files = {name: StoredFile(name, row["size"], tag, row["last_modified"])}
        return Listing(str(self._where), files, is_file=True)

    def _below(self) -> Listing:
        """One odd name (`a//b`, a control character) fails obstore's whole page: then each folder is listed alone."""
        import obstore
        from obstore.exceptions import BaseError, InvalidPathError

        rows: list[Mapping[str, Any]] = []
        try:
            try:
                for page in obstore.list(self._store, self._where.path or None, chunk_size=_PAGE):
                    rows.extend(page)
                    self._check(rows)
            except InvalidPathError:
                rows = []
                return self._listing(rows, self._by_folder(rows))
        except (BaseError, OSError, ValueError) as wrong:
            raise of_store(wrong, self._where) from wrong
        return self._listing(rows, ())

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        import obstore
        from obstore.exceptions import BaseError

        if not length:
            return b""
        try:
            found = bytes(obstore.get_range(self._store, self._head + file.path, start=start, length=length))
        except FileNotFoundError:
            raise FileChanged(file.path) from None
        except (BaseError, OSError, ValueError) as wrong:
            if "status code: 416" in str(wrong):
                raise FileChanged(file.path) from None
            raise of_store(wrong, self._where) from wrong
        if len(found) != length:
            raise FileChanged(file.path)
        return found

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(_AT_ONCE, len(items))) as pool:
            return list(pool.map(work, items))

    def _by_folder(self, rows: list[Mapping[str, Any]]) -> Sequence[str]:
        """The folders that cannot be listed because of a name in them."""
        import obstore
        from obstore.exceptions import InvalidPathError

        waiting, unread = [self._where.path], []
        while waiting:
            folder = waiting.pop()
            try:
                found = obstore.list_with_delimiter(self._store, folder or None)
            except InvalidPathError as wrong:
                if folder == self._where.path:
                    told = " ".join(str(wrong).partition("\n\nDebug source")[0].split())[:200]
                    raise CheckpointLocationWrong(
                        f"{self._where}: a name that lies directly in it cannot be read ({told}).",
                        "Rename or remove that object, or give the checkpoints a folder of their own.",
                    ) from wrong
                unread.append(folder.removeprefix(self._head))
                continue
            rows.extend(found["objects"])
            waiting.extend(found["common_prefixes"])
            self._check(rows)
        return sorted(unread)

    def _check(self, rows: Sequence[object]) -> None:
        if len(rows) > self._most:
            raise too_many(self._where, self._most)

    def _listing(self, rows: Iterable[Mapping[str, Any]], unread: Iterable[str]) -> Listing:
        files = {}
        for row in rows:
            path = row["path"].removeprefix(self._head)
            if path and row["path"] != self._where.path:
                tag = row["e_tag"] or row["last_modified"].isoformat()
                files[path] = StoredFile(path, row["size"], tag, row["last_modified"])
        return Listing(str(self._where), _without_folder_marks(files), tuple(unread))


def _without_folder_marks(files: dict[str, StoredFile]) -> dict[str, StoredFile]:
    """Consoles make empty objects `folder/`, which obstore tells without the slash."""
    folders: set[str] = set()
    for path in files:
        while (path := path.rpartition("/")[0]) and path not in folders:
            folders.add(path)
    return {path: file for path, file in files.items() if file.size or path not in folders}
