"""The checkpoints at a location, in a bucket or a folder: one listing, and a few ranges of the newest ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from costguard.checkpoints.buckets import BucketFolder, StoreAccess, open_store, too_many
from costguard.checkpoints.location import Location, check, of_store, of_system, parse
from costguard.clock import SystemClock
from costguard.errors import CheckpointLocationRefused, CheckpointLocationWrong
from costguard.model.ports import Checkpoints, Clock
from costguard_vm.checkpoints.folder import MOST_FILES, Folder, TooManyFiles
from costguard_vm.checkpoints.judge import judge
from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook, Listing, LookFor, StoredFile


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


class StoredCheckpoints:
    """Implements `model.ports.Checkpoints`. Writes nothing, and lists no location with more than `most` files."""

    def __init__(self, access: StoreAccess, most: int = MOST_FILES) -> None:
        self._access = access
        self._most = most

    def listing(self, location: str) -> Listing:
        """Raises CheckpointError."""
        return self._place(parse(location)).listing()

    def look(
        self, location: str, look_for: LookFor, earlier: Listing | None = None, examine: int = 1
    ) -> CheckpointLook:
        """Examines at least `examine` checkpoints, and on until one is complete. Raises CheckpointError."""
        where = parse(location)
        check(look_for)
        place = self._place(where)
        listing = place.listing()
        if listing.is_file and (look_for.pattern or look_for.marker):
            raise CheckpointLocationWrong(
                f"{location} names one file, so a pattern or a marker means nothing.", "Leave them out."
            )
        look = judge(listing, look_for, place, earlier, examine)
        if not listing.is_file or earlier is not None:
            return look
        again = place.listing()  # a file that is overwritten in place is trusted only if it did not change meanwhile
        return look if again == listing else judge(again, look_for, place, listing, examine)

    def _place(self, where: Location) -> LocalFolder | BucketFolder:
        return LocalFolder(where, self._most) if where.scheme == "file" else self._bucket(where)

    def _bucket(self, where: Location) -> BucketFolder:
        from google.auth.exceptions import GoogleAuthError
        from obstore.exceptions import BaseError

        try:
            return BucketFolder(where, open_store(where, self._access), self._most)
        except GoogleAuthError as wrong:
            raise CheckpointLocationRefused(
                f"{where}: there are no Google credentials ({str(wrong).rstrip('.')}).",
                "Run `gcloud auth application-default login`, or run where a service account gives them.",
            ) from wrong
        except (BaseError, ValueError) as wrong:
            raise of_store(wrong, where) from wrong


class InScaledTime:
    """Checkpoints written in real time, seen by a guard whose clock runs faster."""

    def __init__(self, reach: Checkpoints, clock: Clock, speed: float, real: SystemClock | None = None) -> None:
        self._reach = reach
        self._clock = clock
        self._speed = speed
        self._real = real or SystemClock()
        self._moved: dict[tuple[str, datetime], datetime] = {}  # so that one checkpoint has one time in all looks

    def listing(self, location: str) -> Listing:
        return self._reach.listing(location)

    def look(
        self, location: str, look_for: LookFor, earlier: Listing | None = None, examine: int = 1
    ) -> CheckpointLook:
        look = self._reach.look(location, look_for, earlier, examine)
        now, real_now = self._clock.now(), self._real.now()

        def moved(one: Checkpoint) -> Checkpoint:
            written_at = now - (real_now - one.written_at) * self._speed
            return replace(one, written_at=self._moved.setdefault((one.resume_from, one.written_at), written_at))

        resume = moved(look.resume) if look.resume is not None else None
        return replace(look, checkpoints=tuple(moved(one) for one in look.checkpoints), resume=resume)


def look_twice(
    reach: Checkpoints, location: str, look_for: LookFor, examine: int, pause: Callable[[], object]
) -> CheckpointLook:
    """Looks twice: files that are still being written differ between two listings. Raises CheckpointError."""
    check(look_for)
    earlier = reach.listing(location)
    pause()
    return reach.look(location, look_for, earlier, examine)
