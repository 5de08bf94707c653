"""Deletes data stages in buckets and folders, through obstore."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from costguard.checkpoints.buckets import READ_WRITE, StoreAccess, open_store
from costguard.checkpoints.location import Location, of_store, of_system, parse

_PAGE = 1000  # objects of one listing, and of one request to delete


class StoredStages:
    """Implements `model.data.StageStore`."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = replace(access, scope=READ_WRITE)

    def delete(self, place: str, first: str) -> int:
        """Deletes all below a place, the object `first` before the others. Returns how many objects were there.

        What is gone already is no failure, so that it may be repeated. Raises CheckpointError.
        """
        where = parse(place)
        return self._folder(where, first) if where.scheme == "file" else self._bucket(where, first)

    def _bucket(self, where: Location, first: str) -> int:
        import obstore
        from google.auth.exceptions import GoogleAuthError
        from obstore.exceptions import BaseError

        count = 0
        try:
            store = open_store(where, self._access)
            obstore.delete(store, [f"{where.path}/{first}"])
            for page in obstore.list(store, where.path, chunk_size=_PAGE):
                names = [str(row["path"]) for row in page]
                obstore.delete(store, names)
                count += len(names)
        except (BaseError, GoogleAuthError, OSError, ValueError) as wrong:
            raise of_store(wrong, where) from wrong
        return count

    @staticmethod
    def _folder(where: Location, first: str) -> int:
        folder = Path(where.path)
        try:
            (folder / first).unlink(missing_ok=True)
            count = sum(path.is_file() for path in folder.rglob("*"))
            shutil.rmtree(folder)
        except FileNotFoundError:
            return 0
        except OSError as wrong:
            raise of_system(wrong, where) from wrong
        return count
