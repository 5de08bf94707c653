"""A folder on this machine as a location of checkpoints: what is wrong with it comes in Costguard's own errors."""

from __future__ import annotations

import os

from costguard.checkpoints.errors import of_system
from costguard.checkpoints.folder import MOST_FILES, Folder, TooManyFiles
from costguard.checkpoints.location import Location
from costguard.checkpoints.remote import too_many
from costguard.model.checkpoint import Listing, StoredFile


class LocalFolder(Folder):
    def __init__(self, where: Location, most: int = MOST_FILES) -> None:
        super().__init__(where.path, str(where), most)
        self._where = where
        self._limit = most

    def listing(self) -> Listing:
        """Raises CheckpointError."""
        try:
            return super().listing()
        except TooManyFiles:
            raise too_many(self._where, self._limit) from None
        except OSError as wrong:
            raise of_system(wrong, self._where) from wrong

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        """Raises CheckpointError, or FileChanged."""
        try:
            return super().read(file, start, length)
        except OSError as wrong:
            raise of_system(wrong, Location("file", "", os.path.join(self._where.path, file.path))) from wrong
