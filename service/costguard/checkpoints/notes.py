"""What a person should know about a location beside its checkpoints: why nothing is found, or what looks odd."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Callable, Sequence

from costguard.checkpoints.layouts.base import Candidate, join, listed
from costguard.model.checkpoint import Checkpoint, Listing, StoredFile, written_over

Find = Callable[[Listing], Sequence[Candidate]]
_MOST_FOLDERS = 50  # what a hint is worth
_NUMBERED = re.compile(r"(.*?[^0-9])?([0-9]+)(\.[A-Za-z0-9_]+)")


def notes_on(listing: Listing, found: Sequence[Checkpoint], resume: Checkpoint | None, find: Find) -> tuple[str, ...]:
    notes = [f"{path} could not be listed, so what lies in it is not known." for path in listing.unread]
    if listing.is_file:
        notes.append(written_over(listing.location))
    if not found:
        return (*notes, *_nothing(listing, find))
    if resume is None:
        return (*notes, "No checkpoint is complete: work would start from the beginning.")
    if len({one.framework for one in found}) > 1:
        names = ", ".join(sorted({one.framework.value for one in found}))
        notes.append(f"Several layouts lie here ({names}), which are ordered by step alone; name one as the framework.")
    later = [one for one in found if one.written_at > resume.written_at and _step(one) < _step(resume)]
    if later:
        notes.append(
            f"{later[0].name} was written later than {resume.name}, and is of an earlier step: two runs may share this "
            "location. Give each run one of its own."
        )
    return tuple(notes)


def _step(one: Checkpoint) -> int:
    return -1 if one.step is None else one.step


def _nothing(listing: Listing, find: Find) -> Iterator[str]:
    if not listing.files:
        yield "Nothing lies here: work would start from the beginning."
        return
    count = len(listing.files)
    files = f"{count} files lie" if count > 1 else "1 file lies"
    named = f"{files} at {listing.location} that no layout recognises ({listed(list(listing.files))})"
    yield f"{named}: work would start from the beginning."
    deeper = list(_deeper(listing, find))
    if deeper:
        yield f"Checkpoints lie further down, in {listed(deeper)}: name that location instead."
        return
    for path in listing.files:
        if matched := _NUMBERED.fullmatch(path):
            yield f"If {path} is one, name its pattern: {matched[1] or ''}{{step}}{matched[3]}"
            return


def _deeper(listing: Listing, find: Find) -> Iterator[str]:
    """Folders, one or two levels down, that hold checkpoints."""
    folders = dict.fromkeys(
        "/".join(parts[:depth])
        for path in listing.files
        if len(parts := path.split("/")) > 1
        for depth in (1, 2)
        if len(parts) > depth
    )
    by_folder: dict[str, dict[str, StoredFile]] = {folder: {} for folder in list(folders)[:_MOST_FOLDERS]}
    for path, file in listing.files.items():
        parts = path.split("/")
        for depth in (1, 2):
            if len(parts) > depth and (folder := "/".join(parts[:depth])) in by_folder:
                by_folder[folder]["/".join(parts[depth:])] = file
    for folder, files in by_folder.items():
        where = join(listing.location, folder)
        if any(one.name != "." for one in find(Listing(where, files))):
            yield where
