"""What the agent keeps next to the checkpoints that it uploads: `.costguard/` below the location.

`.costguard/uploading/NAME` lies there while the checkpoint NAME is uploaded, replaced or deleted: it is written first
and deleted last, so that no moment of an upload shows a torn checkpoint as complete, whatever its layout can tell by
names (Orbax's, outside of Google Cloud Storage, tells nothing). `.costguard/slots/N/` is for a checkpoint whose name is
taken by the only complete one. All else below `.costguard/` is no checkpoint. Travels with the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from costguard.checkpoints.layouts.base import CandidateCheckpoint
from costguard.model.checkpoint import Listing, StoredFile

OURS = ".costguard/"
UPLOADING = ".costguard/uploading/"
SLOTS = ".costguard/slots/"


class Parts(NamedTuple):
    """A listing without our own files, that of each slot by its prefix, and the names that are being uploaded."""

    listing: Listing
    slots: dict[str, Listing]
    uploading: frozenset[str]


def parts_of(listing: Listing) -> Parts:
    if not any(path.startswith(OURS) for path in listing.files):
        return Parts(listing, {}, frozenset())
    files = {path: file for path, file in listing.files.items() if not path.startswith(OURS)}
    uploading = frozenset(path[len(UPLOADING) :] for path in listing.files if path.startswith(UPLOADING))
    slots: dict[str, dict[str, StoredFile]] = {}
    for path, file in listing.files.items():
        number, slash, name = path[len(SLOTS) :].partition("/")
        if path.startswith(SLOTS) and slash:
            slots.setdefault(f"{SLOTS}{number}/", {})[name] = file
    location = listing.location.rstrip("/")
    listings = {prefix: Listing(f"{location}/{prefix}", held) for prefix, held in slots.items()}
    return Parts(replace(listing, files=files), listings, uploading)


def in_slot(prefix: str, one: CandidateCheckpoint) -> CandidateCheckpoint:
    """As the location has it, above the slot."""
    name = prefix.rstrip("/") if one.name == "." else prefix + one.name
    path = prefix.rstrip("/") if not one.resume_path else prefix + one.resume_path
    return replace(one, name=name, resume_path=path)


def marked(seen: Iterator[CandidateCheckpoint], uploading: frozenset[str]) -> Iterator[CandidateCheckpoint]:
    """With the reason for each whose upload was not finished."""
    for one in seen:
        if one.name in uploading:
            one = replace(one, missing=[*one.missing, "Its upload was not finished."])
        yield one
