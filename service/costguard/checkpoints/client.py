"""Looking at a location of checkpoints: one listing, and a few ranges of the newest ones."""

from __future__ import annotations

from costguard.checkpoints.errors import of_store
from costguard.checkpoints.judge import judge
from costguard.checkpoints.local import LocalFolder
from costguard.checkpoints.location import Location, check, parse
from costguard.checkpoints.remote import Bucket
from costguard.checkpoints.stores import Access, open_store
from costguard.errors import CheckpointLocationRefused, CheckpointLocationWrong
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
        listing = place.listing()
        if listing.is_file and (look_for.pattern or look_for.marker):
            raise CheckpointLocationWrong(
                f"{location} names one file, so a pattern or a marker means nothing.", "Leave them out."
            )
        look = judge(listing, look_for, place, earlier, examine)
        if not listing.is_file or earlier is not None:
            return look
        again = place.listing()  # one that is written over in place is trusted only if it stood still meanwhile
        return look if again == listing else judge(again, look_for, place, listing, examine)

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
