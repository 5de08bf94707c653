"""Which checkpoints lie in a listing, and which of them are complete: the newest complete one is resumed from.

Pure but for the ranges that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from costguard.checkpoints.layouts import LAYOUTS, TOLD_BY_NAMES, single
from costguard.checkpoints.layouts.base import Candidate, FileChanged, Reader, Tree, join
from costguard.checkpoints.notes import notes_on
from costguard.model.checkpoint import (
    Checkpoint,
    CheckpointLook,
    CheckpointState,
    Framework,
    Listing,
    LookFor,
)

_NEVER = datetime.min.replace(tzinfo=timezone.utc)


def judge(
    listing: Listing, look_for: LookFor, reader: Reader, earlier: Listing | None = None, examine: int = 1
) -> CheckpointLook:
    """Looks inside the newest `examine` checkpoints, and on until one is complete. Older ones stay unread.

    Without an earlier listing nobody can say that nothing changed, and so nothing is held to be changing.
    """
    checkpoints: list[Checkpoint] = []
    for candidate in sorted(candidates(listing, look_for, reader), key=_age, reverse=True):
        is_wanted = len(checkpoints) < examine or not any(one.is_complete for one in checkpoints)
        checkpoints.append(_judged(candidate, listing, reader, earlier, is_wanted=is_wanted))
    deeper = partial(candidates, look_for=LookFor(), reader=reader)
    resume = next((one for one in checkpoints if one.is_complete), None)
    return CheckpointLook(
        listing.location, listing, tuple(checkpoints), resume, notes_on(listing, checkpoints, resume, deeper)
    )


def candidates(listing: Listing, look_for: LookFor, reader: Reader) -> list[Candidate]:
    """What lies directly at the location; where nothing does, the location itself as one checkpoint."""
    if listing.is_file:
        return list(single.find(Tree(listing, look_for, reader)))
    found = list(_claimed(Tree(listing, look_for, reader)))
    if found or not listing.files:
        return found
    above, _, name = listing.location.rstrip("/").rpartition("/")
    moved = {f"{name}/{path}": file for path, file in listing.files.items()}
    itself = (one for one in _claimed(Tree(Listing(above, moved), look_for, reader)) if one.name == name)
    return [replace(one, name=".", resume_path="") for one in itself]


def _claimed(tree: Tree) -> Iterator[Candidate]:
    """What an earlier layout has claimed is not offered to a later one."""
    claimed: set[str] = set()
    for framework in _frameworks(tree.look_for):
        for candidate in LAYOUTS[framework](tree):
            if candidate.name not in claimed:
                claimed.add(candidate.name)
                yield candidate


def _frameworks(look_for: LookFor) -> tuple[Framework, ...]:
    if look_for.framework is not None:
        return (look_for.framework,)
    if look_for.marker:
        return (Framework.MARKER,)
    return (Framework.FILES,) if look_for.pattern else TOLD_BY_NAMES


def _age(candidate: Candidate) -> tuple[int, datetime, str]:
    return (-1 if candidate.step is None else candidate.step), _written_at(candidate), candidate.name


def _written_at(candidate: Candidate) -> datetime:
    return max((file.modified_at for file in candidate.files.values()), default=_NEVER)


def _judged(
    candidate: Candidate, listing: Listing, reader: Reader, earlier: Listing | None, *, is_wanted: bool
) -> Checkpoint:
    state, reasons = _verdict(candidate, reader, earlier, is_wanted=is_wanted)
    return Checkpoint(
        framework=candidate.framework,
        name=candidate.name,
        resume_from=join(listing.location, candidate.resume_path),
        step=candidate.step,
        state=state,
        reasons=tuple(reasons),
        written_at=_written_at(candidate),
        size=sum(file.size for file in candidate.files.values()),
        files=len(candidate.files),
    )


def _verdict(
    candidate: Candidate, reader: Reader, earlier: Listing | None, *, is_wanted: bool
) -> tuple[CheckpointState, list[str]]:
    if candidate.missing:
        return CheckpointState.TORN, list(candidate.missing)
    if earlier is not None:
        changed = [file.path for file in candidate.files.values() if earlier.files.get(file.path) != file]
        if changed:
            path = changed[0]
            how = "changed" if path in earlier.files else "appeared"
            more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
            return CheckpointState.CHANGING, [f"{path} {how} since the listing before{more}: it may still be written."]
    if not is_wanted:
        return CheckpointState.UNREAD, []
    try:
        problems = candidate.check(reader)
    except FileChanged as changed_file:
        return CheckpointState.CHANGING, [f"{changed_file} was removed or replaced while it was read."]
    return (CheckpointState.TORN, problems) if problems else (CheckpointState.COMPLETE, [])
