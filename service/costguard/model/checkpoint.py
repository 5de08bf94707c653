"""Saved training state: what lies at a location, and which of it work can resume from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Framework(StrEnum):
    """Who wrote a checkpoint, and so what it must hold."""

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


class CheckpointState(StrEnum):
    COMPLETE = "complete"
    TORN = "torn"
    CHANGING = "changing"  # differs from the listing before: it may still be written
    UNREAD = "unread"  # all names are there, and nobody looked inside


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file or object. `path` is relative to the location; `tag` differs whenever the contents do."""

    path: str
    size: int
    tag: str
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything below a location at one moment. What lies in `unread` folders is not known."""

    location: str
    files: Mapping[str, StoredFile]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LookFor:
    """What to look for. Without a framework every layout that can be told by its names is tried.

    `pattern` is a path with `{step}` in it, `*` for anything within a name. `marker` is the file that is written last:
    in the checkpoint's folder, or beside the checkpoints when it holds `{step}` too.
    """

    framework: Framework | None = None
    pattern: str = ""
    marker: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint and what was found about it. `reasons` say why it is not complete."""

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


@dataclass(frozen=True, slots=True)
class CheckpointLook:
    """What was seen at a location, newest first. `listing` is what the next look is compared with."""

    location: str
    listing: Listing = field(repr=False)
    checkpoints: tuple[Checkpoint, ...]
    resume: Checkpoint | None  # None: work starts from the beginning
    notes: tuple[str, ...] = ()
