"""Measures the data at an address, counted in one listing with limits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from costguard.checkpoints.buckets import StoreAccess, open_store, s3_endpoint
from costguard.checkpoints.location import Location, of_store, of_system, parse
from costguard.errors import CheckpointLocationRefused
from costguard.model.data import PUBLISHED, StoredSize

MOST_FILES = 200_000
LONGEST_S = 20.0  # of a request that a person waits for
_PAGE = 1000
_S3_DEFAULT = "us-east-1"  # obstore's, where no region is named: it could read a bucket of no other region


class StoredData:
    """Implements `model.ports.DataPlaces`. Reads no contents."""

    def __init__(
        self,
        access: StoreAccess,
        most: int = MOST_FILES,
        longest_s: float = LONGEST_S,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._most = most
        self._longest_s = longest_s
        self._seconds = seconds

    def size(self, location: str, endpoint: str) -> StoredSize | None:
        """Raises CheckpointError."""
        where = parse(location)
        if where.scheme == "file":
            return self._counted(_folder_rows(where), "")
        ours = s3_endpoint(self._access) if where.scheme == "s3" else self._access.gcs_endpoint
        if endpoint.rstrip("/") != ours.rstrip("/"):
            return None
        region = ""
        if where.scheme == "s3" and not ours:
            region = self._access.s3_region or self._access.environ.get("AWS_REGION", "") or _S3_DEFAULT
        return self._of_bucket(where, region)

    def _of_bucket(self, where: Location, region: str) -> StoredSize:
        from google.auth.exceptions import GoogleAuthError
        from obstore.exceptions import BaseError

        try:
            store = open_store(where, self._access)
            size = self._counted(_bucket_rows(store, where), region)
            return size if size.files or not where.path else _object(store, where, region)
        except GoogleAuthError as wrong:
            text = f"{where}: there are no Google credentials ({str(wrong).rstrip('.')})."
            raise CheckpointLocationRefused(text, "Run where a service account gives them.") from wrong
        except (BaseError, OSError, ValueError) as wrong:
            raise of_store(wrong, where) from wrong

    def _counted(self, rows: Iterator[tuple[str, int]], region: str) -> StoredSize:
        until = self._seconds() + self._longest_s
        total = files = 0
        is_published = False
        for name, size in rows:
            if files == self._most or self._seconds() > until:
                return StoredSize(total, files, False, region, is_published)
            total, files = total + size, files + 1
            is_published = is_published or name == PUBLISHED
        return StoredSize(total, files, True, region, is_published)


def _bucket_rows(store: Any, where: Location) -> Iterator[tuple[str, int]]:
    """Names below the address, and sizes. The empty object `folder/`, which consoles create, is no data."""
    import obstore

    for page in obstore.list(store, where.path or None, chunk_size=_PAGE):
        for row in page:
            name = str(row["path"]).removeprefix(where.path).lstrip("/")
            if name:
                yield name, int(row["size"])


def _object(store: Any, where: Location, region: str) -> StoredSize:
    import obstore

    try:
        return StoredSize(int(obstore.head(store, where.path)["size"]), 1, True, region)
    except FileNotFoundError:
        return StoredSize(0, 0, True, region)


def _folder_rows(where: Location) -> Iterator[tuple[str, int]]:
    try:
        if os.path.isfile(where.path):
            yield os.path.basename(where.path), os.path.getsize(where.path)
            return
        for folder, _, names in os.walk(where.path):
            for name in names:
                path = os.path.join(folder, name)
                yield os.path.relpath(path, where.path), os.lstat(path).st_size
    except OSError as wrong:
        raise of_system(wrong, where) from wrong
