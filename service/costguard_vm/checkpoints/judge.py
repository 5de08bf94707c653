"""Finds the checkpoints in a listing, judges which of them are complete, and notes oddities.

Pure except for the ranges that it reads. Travels with the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Callable, Sequence

from costguard_vm.checkpoints.layouts import BY_NAMES, LAYOUTS
from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint, FileChanged, RangeReader, Tree, join, listed
from costguard_vm.checkpoints.layouts.plain import find_single
from costguard_vm.checkpoints.proposals import may_be_checkpoints, options, proposed
from costguard_vm.checkpoints.uploads import in_slot, marked, parts_of
from costguard_vm.model.checkpoint import (
    Checkpoint,
    CheckpointLook,
    CheckpointState,
    Framework,
    Listing,
    LookFor,
    StoredFile,
    names_a_file,
    written_over,
)

Find = Callable[[Listing], Sequence[CandidateCheckpoint]]
_MOST_FOLDERS = 50  # examined for a hint


def notes_on(
    listing: Listing, checkpoints: Sequence[Checkpoint], resume: Checkpoint | None, reader: RangeReader
) -> tuple[str, ...]:
    notes = [f"{path} could not be listed, so its content is not known." for path in listing.unread]
    if listing.is_file:
        notes.append(written_over(listing.location))
    if not checkpoints:
        return (*notes, *_nothing(listing, reader))
    if resume is None:
        return (*notes, "No checkpoint is complete: work would start from the beginning.")
    if len({one.framework for one in checkpoints}) > 1:
        names = ", ".join(sorted({one.framework.value for one in checkpoints}))
        notes.append(f"Several layouts are here ({names}), ordered by step alone; name one as the framework.")
    later = [one for one in checkpoints if one.written_at > resume.written_at and _step(one) < _step(resume)]
    if later:
        notes.append(
            f"{later[0].name} was written later than {resume.name}, and is of an earlier step: two runs may share this "
            "location. Give each run one of its own."
        )
    return tuple(notes)


def _step(one: Checkpoint) -> int:
    return -1 if one.step is None else one.step


def _nothing(listing: Listing, reader: RangeReader) -> Iterator[str]:
    if not listing.files:
        yield "There is nothing here: work would start from the beginning."
        return
    count = len(listing.files)
    files = f"{count} files lie" if count > 1 else "1 file lies"
    named = f"{files} at {listing.location} that no layout recognises ({listed(list(listing.files))})"
    yield f"{named}: work would start from the beginning."
    deeper = list(_deeper(listing, partial(candidates, look_for=LookFor(), reader=reader)))
    if deeper:
        yield f"There are checkpoints further down, in {listed(deeper)}: name that location instead."
    elif option := _option(listing, may_be_checkpoints(listing.files), reader):
        yield f"If they are checkpoints, name them: {option}"


def unrecognised(listing: Listing, reader: RangeReader) -> str:
    """Describes files that look like checkpoints and that no layout knows, with the options to launch with; "" for
    none.
    """
    plain = parts_of(listing).listing
    paths = [] if plain.is_file else may_be_checkpoints(plain.files)
    if not paths:
        return ""
    what = f"no layout recognises {listed(paths)} in {listing.location}"
    if deeper := list(_deeper(plain, partial(candidates, look_for=LookFor(), reader=reader))):
        return f"{what}: name the location {listed(deeper)} instead"
    option = _option(plain, paths, reader)
    cure = f"launch it with {option}" if option else "save with a step in each name, and launch it with --pattern"
    return f"{what}: {cure}"


def _option(listing: Listing, paths: Sequence[str], reader: RangeReader) -> str:
    """Returns the option with which these would be recognised; "" where none is known to do it."""
    pattern, marker = proposed(listing.files, paths)
    if pattern:
        fits = candidates(listing, LookFor(pattern=pattern, marker=marker), reader)
        return options(pattern, marker) if fits else ""
    is_single = len(paths) == 1 and names_a_file(paths[0])
    return f"--checkpoint {join(listing.location, paths[0])}" if is_single else ""


def _deeper(listing: Listing, find: Find) -> Iterator[str]:
    """Folders one or two levels down that hold checkpoints."""
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


_NEVER = datetime.min.replace(tzinfo=timezone.utc)


def judge(
    listing: Listing, look_for: LookFor, reader: RangeReader, earlier: Listing | None = None, examine: int = 1
) -> CheckpointLook:
    """Examines the newest `examine` checkpoints, and on until one is complete. Older ones stay unread.

    A checkpoint that differs from the `earlier` listing is still being written; without one, none is.
    """
    checkpoints: list[Checkpoint] = []
    plain = parts_of(listing).listing
    for candidate in sorted(candidates(listing, look_for, reader), key=age, reverse=True):
        is_wanted = len(checkpoints) < examine or not any(one.is_complete for one in checkpoints)
        checkpoints.append(_judged(candidate, listing, reader, earlier, is_wanted=is_wanted))
    resume = next((one for one in checkpoints if one.is_complete), None)
    return CheckpointLook(
        listing.location,
        listing,
        tuple(checkpoints),
        resume,
        notes_on(plain, checkpoints, resume, reader),
        "" if checkpoints else unrecognised(listing, reader),
    )


def candidates(listing: Listing, look_for: LookFor, reader: RangeReader) -> list[CandidateCheckpoint]:
    """The checkpoints at the location and in its slots, which the agent's uploads use."""
    plain, slots, uploading = parts_of(listing)
    inside = _candidates(plain, look_for, reader)
    for prefix, held in slots.items():
        inside += [in_slot(prefix, one) for one in _candidates(held, look_for, reader)]
    return list(marked(iter(inside), uploading))


def _candidates(listing: Listing, look_for: LookFor, reader: RangeReader) -> list[CandidateCheckpoint]:
    """The checkpoints directly at the location; where there are none, the location itself as one."""
    if listing.is_file:
        return list(find_single(Tree(listing, look_for, reader)))
    inside = list(_claimed(Tree(listing, look_for, reader)))
    if inside or not listing.files:
        return inside
    above, _, name = listing.location.rstrip("/").rpartition("/")
    moved = {f"{name}/{path}": file for path, file in listing.files.items()}
    itself = (one for one in _claimed(Tree(Listing(above, moved), look_for, reader)) if one.name == name)
    return [replace(one, name=".", resume_path="") for one in itself]


def _claimed(tree: Tree) -> Iterator[CandidateCheckpoint]:
    """Each folder or file goes to the first layout that claims it."""
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
    return (Framework.FILES,) if look_for.pattern else BY_NAMES


def age(candidate: CandidateCheckpoint) -> tuple[int, datetime, str]:
    """The newest is the greatest: by step, then by time."""
    return (-1 if candidate.step is None else candidate.step), _written_at(candidate), candidate.name


def _written_at(candidate: CandidateCheckpoint) -> datetime:
    return max((file.modified_at for file in candidate.files.values()), default=_NEVER)


def _judged(
    candidate: CandidateCheckpoint, listing: Listing, reader: RangeReader, earlier: Listing | None, *, is_wanted: bool
) -> Checkpoint:
    state, reasons = verdict_on(candidate, reader, earlier, is_wanted=is_wanted)
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


def verdict_on(
    candidate: CandidateCheckpoint, reader: RangeReader, earlier: Listing | None, *, is_wanted: bool
) -> tuple[CheckpointState, list[str]]:
    """Judges whether it is complete, and why not. Unread unless `is_wanted`."""
    if candidate.missing:
        return CheckpointState.TORN, list(candidate.missing)
    if earlier is not None:
        changed = [file.path for file in candidate.files.values() if earlier.files.get(file.path) != file]
        if changed:
            path = changed[0]
            how = "changed" if path in earlier.files else "appeared"
            more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
            return CheckpointState.CHANGING, [
                f"{path} {how} since the previous listing{more}: it may still be written."
            ]
    if not is_wanted:
        return CheckpointState.UNREAD, []
    try:
        problems = candidate.check(reader)
    except FileChanged as changed_file:
        return CheckpointState.CHANGING, [f"{changed_file} was removed or replaced while it was read."]
    return (CheckpointState.TORN, problems) if problems else (CheckpointState.COMPLETE, [])
