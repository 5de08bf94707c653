"""Looking at a location of checkpoints: one listing, and a few ranges of the newest ones."""

from __future__ import annotations

from costguard.checkpoints.errors import of_store
from costguard.checkpoints.judge import judge
from costguard.checkpoints.local import LocalFolder
from costguard.checkpoints.location import Location, check, parse
from costguard.checkpoints.remote import Bucket
from costguard.checkpoints.stores import Access, open_store
from costguard.errors import CheckpointLocationRefused
from costguard.model.checkpoint import CheckpointLook, Listing, LookFor


class StoredCheckpoints:
    """Satisfies the engine's `Checkpoints`. Nothing is written anywhere."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def listing(self, location: str) -> Listing:
        """Raises CheckpointError."""
        return self._place(parse(location)).listing()

    def look(
        self, location: str, look_for: LookFor, earlier: Listing | None = None, examine: int = 1
    ) -> CheckpointLook:
        """Raises CheckpointError. Looks inside `examine` checkpoints at least, and on until one is complete."""
        where = parse(location)
        check(look_for)
        place = self._place(where)
        return judge(place.listing(), look_for, place, earlier, examine)

    def _place(self, where: Location) -> LocalFolder | Bucket:
        return LocalFolder(where) if where.scheme == "file" else self._bucket(where)

    def _bucket(self, where: Location) -> Bucket:
        from google.auth.exceptions import GoogleAuthError
        from obstore.exceptions import BaseError

        try:
            return Bucket(where, open_store(where, self._access))
        except GoogleAuthError as wrong:
            raise CheckpointLocationRefused(
                f"{where}: there are no Google credentials ({str(wrong).rstrip('.')}).",
                "Run `gcloud auth application-default login`, or run where a service account gives them.",
            ) from wrong
        except (BaseError, ValueError) as wrong:
            raise of_store(wrong, where) from wrong
