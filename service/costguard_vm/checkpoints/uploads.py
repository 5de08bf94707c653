"""The agent's notes next to the checkpoints that it uploads: `.costguard/` below the location.

`.costguard/uploading/NAME` lies there while the checkpoint NAME is uploaded, replaced or deleted: it is written first
and deleted last, so that no moment of an upload shows a torn checkpoint as complete, whatever its layout can tell by
names (Orbax's, outside of Google Cloud Storage, tells nothing). `.costguard/slots/N/` is for a checkpoint whose name is
taken by the only complete one. `.costguard/parts/` has what several VMs hold of theirs. All else below `.costguard/`
is no checkpoint. Travels with the agent.

Other tools do not know that note. For them the file by which a layout tells that all others are there goes last, and is
deleted first; for Orbax, which recognises a folder by any of several files, all of these go after the arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint, Files
from costguard_vm.checkpoints.layouts.orbax import SIGNS, SUCCESS
from costguard_vm.model.checkpoint import Framework, Listing, StoredFile

OURS = ".costguard/"
UPLOADING = ".costguard/uploading/"
SLOTS = ".costguard/slots/"
_ITSELF = ".costguard/itself"  # for the location itself as a checkpoint, whose name no object can have
_TELLING = {
    Framework.HUGGING_FACE: ("trainer_state.json",),
    Framework.LIGHTNING: ("latest", "meta.pt"),  # of its folders
    Framework.MEGATRON: (".metadata",),
    Framework.TORCH_DCP: (".metadata",),
}
_MANIFEST = "manifest.ocdbt"


class Parts(NamedTuple):
    """A listing without our own files, that of each slot by its prefix, and the names that are being uploaded."""

    listing: Listing
    slots: dict[str, Listing]
    uploading: frozenset[str]


def parts_of(listing: Listing) -> Parts:
    if not any(path.startswith(OURS) for path in listing.files):
        return Parts(listing, {}, frozenset())
    files = {path: file for path, file in listing.files.items() if not path.startswith(OURS)}
    names = [path[len(UPLOADING) :] for path in listing.files if path.startswith(UPLOADING)]
    uploading = frozenset("." if name == _ITSELF else name for name in names)
    slots: dict[str, dict[str, StoredFile]] = {}
    for path, file in listing.files.items():
        number, slash, name = path[len(SLOTS) :].partition("/")
        if path.startswith(SLOTS) and slash:
            slots.setdefault(f"{SLOTS}{number}/", {})[name] = file
    listings = {prefix: Listing(listing.location, held) for prefix, held in slots.items()}  # its name may tell the step
    return Parts(replace(listing, files=files), listings, uploading)


def in_slot(prefix: str, one: CandidateCheckpoint) -> CandidateCheckpoint:
    """Returns the checkpoint as the location has it, above the slot."""
    name = prefix.rstrip("/") if one.name == "." else prefix + one.name
    path = prefix.rstrip("/") if not one.resume_path else prefix + one.resume_path
    return replace(one, name=name, resume_path=path)


def note_of(name: str) -> str:
    """The path of the note that a checkpoint is being uploaded."""
    return UPLOADING + (_ITSELF if name == "." else name)


def marked(seen: Iterator[CandidateCheckpoint], uploading: frozenset[str]) -> Iterator[CandidateCheckpoint]:
    """Adds the reason to each checkpoint whose upload was not finished.

    Half of a checkpoint may be taken for another: for a part of it, or for the location itself.
    """
    for one in seen:
        if uploading and _is_of(one, uploading):
            one = replace(one, missing=[*one.missing, "Its upload was not finished."])
        yield one


def _is_of(one: CandidateCheckpoint, uploading: frozenset[str]) -> bool:
    if one.name in uploading or ("." in uploading and not one.name.startswith(SLOTS)):
        return True
    return any(file.path.startswith(f"{name}/") for file in one.files.values() for name in uploading)


def in_order(one: CandidateCheckpoint, others: Collection[str] = (), marker: str = "") -> list[list[str]]:
    """The paths of its files, and of a marker next to it (`others`), in groups that are uploaded one after another."""
    paths = [file.path for file in one.files.values()]
    if others:
        return [sorted(paths), sorted(others)]
    later = _orbax(one.files) if one.framework is Framework.ORBAX else [[_telling(one, marker)]]
    back = {path for group in later for path in group}
    return [sorted(path for path in paths if path not in back), *later]


def _telling(one: CandidateCheckpoint, marker: str) -> str:
    """Returns a file without which the layout does not take it for complete, whatever else is there; where there is
    such a file.
    """
    names = (marker,) if one.framework is Framework.MARKER else _TELLING.get(one.framework, ())
    chosen = next((name for name in names if name in one.files), "")
    if one.framework is Framework.TENSORFLOW:
        chosen = next((name for name in one.files if name.endswith(".index")), "")
    if one.framework is Framework.KERAS:
        chosen = next((name for name in one.files if ".weights.h5" in name), "")
    if one.framework is Framework.DEEPSPEED:  # the others show that the first one lacks
        chosen = min((name for name in one.files if name.endswith("model_states.pt")), default="")
    return one.files[chosen or min(one.files)].path


def _orbax(files: Files) -> list[list[str]]:
    """Returns the files that it is recognised by, then a manifest that its arrays need, and the files that Google's
    stores wait for.
    """
    signs = [name for name in files if name.rpartition("/")[2] in SIGNS]
    arrays = {name.partition("/d/")[0] for name in files if "/d/" in name and "ocdbt.process_" not in name}
    needed = sorted(f"{item}/{_MANIFEST}" for item in arrays if f"{item}/{_MANIFEST}" in files)
    last = [*needed[-1:], *([SUCCESS] if SUCCESS in files else [])]
    between = sorted(name for name in signs if name not in last)
    return [[files[name].path for name in group] for group in (between, *([name] for name in last))]
