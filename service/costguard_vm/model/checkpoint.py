"""Checkpoints: what a location holds, which of it a run can resume from, and the arguments for that.

Travels with the agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

MOST_PASSED_OVER = 5


class _Word(str, Enum):
    """An enum's StrEnum, which is of Python 3.11."""

    def __str__(self) -> str:
        return str(self.value)


# Of single files that hold a whole state. A folder may be called so too: what lies there decides.
_SINGLE = (
    ".bin", ".ckpt", ".h5", ".hdf5", ".joblib", ".keras", ".msgpack", ".npy", ".npz", ".pickle", ".pkl", ".pt", ".pth",
    ".safetensors", ".tar", ".zip",
)  # fmt: skip


LOGS_FOLDER = ".costguard/logs"  # at a location: the output of its job, which is listed with no checkpoints


class Framework(_Word):
    """The framework that wrote a checkpoint, which decides the files that it must hold."""

    HUGGING_FACE = "hugging-face"
    LIGHTNING = "lightning"
    MEGATRON = "megatron"
    DEEPSPEED = "deepspeed"
    TORCH_DCP = "torch-dcp"
    ORBAX = "orbax"
    KERAS = "keras"
    TENSORFLOW = "tensorflow"
    MARKER = "marker"
    FILES = "files"


class CheckpointState(_Word):
    COMPLETE = "complete"
    TORN = "torn"
    CHANGING = "changing"  # differs from the listing before: it may still be written
    UNREAD = "unread"  # all names are there, and nobody looked inside


@dataclass(frozen=True)
class StoredFile:
    """A file or object. `path` is relative to the location; `tag` differs whenever the contents do."""

    path: str
    size: int
    tag: str
    modified_at: datetime


@dataclass(frozen=True)
class Listing:
    """Everything below a location at one moment. What lies in `unread` folders is not known.

    `is_file`: the location names one file, which is all that is listed, or nothing while it is not there yet.
    """

    location: str
    files: Mapping[str, StoredFile]
    unread: tuple[str, ...] = ()
    is_file: bool = False


@dataclass(frozen=True)
class LookFor:
    """The checkpoints to look for. Without a framework every layout that is recognised by its names is tried.

    `pattern` is a path with `{step}` in it, `*` for anything within a name. `marker` is the file that is written last:
    in the checkpoint's folder, or next to the checkpoints when it holds `{step}` too.
    """

    framework: Framework | None = None
    pattern: str = ""
    marker: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint with its state. `reasons` say why it is not complete."""

    framework: Framework
    name: str  # its path below the location
    resume_from: str  # what work is given to resume from it
    step: int | None
    state: CheckpointState
    reasons: tuple[str, ...]
    written_at: datetime
    size: int
    files: int

    @property
    def is_complete(self) -> bool:
        return self.state is CheckpointState.COMPLETE


_STILL_WRITTEN = timedelta(minutes=1)


@dataclass(frozen=True)
class CheckpointLook:
    """The checkpoints seen at a location, newest first. `listing` is what the next look is compared with."""

    location: str
    listing: Listing = field(repr=False)
    checkpoints: tuple[Checkpoint, ...]
    resume: Checkpoint | None  # None: work starts from the beginning
    notes: tuple[str, ...] = ()
    unrecognised: str = ""  # what looks like checkpoints that no layout knows, and the options that would fit

    def unprotected(self, now: datetime) -> str:
        """`unrecognised`, once its oldest file is a minute old: a first save may rename its files at its end."""
        oldest = min((file.modified_at for file in self.listing.files.values()), default=now)
        return self.unrecognised if oldest <= now - _STILL_WRITTEN else ""

    @property
    def passed_over(self) -> tuple[str, ...]:
        """A sentence for each newer checkpoint that is torn; a run that tears every one of them has hundreds."""
        torn: list[str] = []
        for one in self.checkpoints:
            if one.is_complete or len(torn) == MOST_PASSED_OVER:
                break
            if one.state is CheckpointState.TORN:
                torn.append(f"{one.name}: {' '.join(one.reasons)}".strip())
        return tuple(torn)


def names_a_file(location: str) -> bool:
    """Guesses from its last part whether a location names a file; used only where neither a file nor a folder lies
    there yet.
    """
    return location.endswith(_SINGLE)


def written_over(location: str) -> str:
    """Explains what it means that a location names one file."""
    name = location.rpartition("/")[2]
    if location.startswith(("gs:", "s3:")):
        return f"{name} is one file: each save takes the place of the one before, as a whole."
    return (
        f"{name} is one file that is written over: a VM lost during a save leaves it torn, and then work starts from "
        "the beginning. Save under another name and rename it, or keep several, each with its step in its name."
    )


def words_of(template: str) -> list[str]:
    """The words of a resume template, split as a shell would. Raises ValueError where a quote is not closed."""
    return shlex.split(template)


def filled(words: Sequence[str], checkpoint: str, location: str, step: int | None) -> list[str]:
    """Returns the words with each placeholder replaced, after splitting, so that a path with blanks stays one word."""
    values = {"{checkpoint}": checkpoint, "{location}": location, "{step}": "" if step is None else str(step)}
    return [_replaced(word, values) for word in words]


def _replaced(word: str, values: Mapping[str, str]) -> str:
    """Each placeholder once, from left to right: what was put in is not looked through again."""
    done, rest = "", word
    while rest:
        places = [(rest.find(name), name) for name in values if name in rest]
        if not places:
            break
        at, name = min(places)
        done, rest = done + rest[:at] + values[name], rest[at + len(name) :]
    return done + rest
