"""The checkpoints at the job's location: uploaded, replaced and deleted so that no torn one ever looks whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Callable, NamedTuple, Sequence, TypeVar

from costguard.checkpoints.judge import age, candidates
from costguard.checkpoints.layouts.base import CandidateCheckpoint, FileChanged, join
from costguard.checkpoints.layouts.megatron import TRACKER
from costguard.checkpoints.layouts.plain import STEP, StepPattern
from costguard.checkpoints.uploads import OURS, SLOTS, UPLOADING, in_slot
from costguard.model.checkpoint import Framework, Listing, LookFor, StoredFile, names_a_file

from .failures import TransferFailed
from .transfer import Progress, Transfer

T = TypeVar("T")
R = TypeVar("R")
MOST_TRIED = 20  # files, the latest first, of which one is looked for that makes a checkpoint complete


class Held(NamedTuple):
    """A complete checkpoint at the location. `paths` are below the location."""

    name: str
    step: int
    written_at: datetime
    paths: Sequence[str]


class RemoteReader:
    """Ranges of files at a location, for the layouts."""

    def __init__(self, transfer: Transfer, location: str) -> None:
        self._transfer, self._location = transfer, location

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        data = self._transfer.read(join(self._location, file.path), start, length)
        if len(data) != length:
            raise FileChanged(file.path)
        return data

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]


class Contents:
    """A reader of nothing but a few small files whose content is known."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        if file.path not in self._contents:
            raise FileChanged(file.path)
        return self._contents[file.path][start : start + length]

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]


class Upload(NamedTuple):
    """What goes to the location for one checkpoint: `last` makes it complete; `written` has contents of our own."""

    candidate: CandidateCheckpoint
    first: Sequence[str]
    last: Sequence[str]
    written: Mapping[str, bytes]

    @property
    def paths(self) -> list[str]:
        return [*self.first, *self.last, *self.written]

    @property
    def is_one_file(self) -> bool:
        return len(self.paths) == 1


def planned(candidate: CandidateCheckpoint, listing: Listing, look_for: LookFor) -> Upload | None:
    """None where the checkpoint is not one by itself, as Keras's backup is not without the newer weights."""
    files = {file.path: file for file in candidate.files.values()}
    if STEP in look_for.marker:
        pattern = StepPattern(look_for.marker)
        files.update((path, file) for path, file in listing.files.items() if pattern.step_of(path) == candidate.step)
    written = pointer(candidate)
    if listing.is_file:
        return Upload(candidate, (), list(files), {})
    if not _stands(candidate, files, written, look_for):
        return None
    latest = sorted(files.values(), key=lambda file: (file.modified_at, file.path), reverse=True)
    last = next(
        (
            file.path
            for file in latest[:MOST_TRIED]
            if not _stands(candidate, _without(files, file.path), written, look_for)
        ),
        latest[0].path,
    )
    return Upload(candidate, sorted(set(files) - {last}), [last], written)


def pointer(candidate: CandidateCheckpoint) -> dict[str, bytes]:
    """The file in which a framework names its newest checkpoint, where it does not load one without."""
    if candidate.framework is Framework.DEEPSPEED:
        return {"latest": candidate.name.encode()}
    if candidate.framework is Framework.MEGATRON:
        return {TRACKER: str(candidate.step).encode()}
    return {}


def _without(files: Mapping[str, StoredFile], path: str) -> dict[str, StoredFile]:
    return {name: file for name, file in files.items() if name != path}


def _stands(
    candidate: CandidateCheckpoint, files: Mapping[str, StoredFile], written: Mapping[str, bytes], look_for: LookFor
) -> bool:
    """Whether names alone show a complete checkpoint where there is nothing but these files."""
    now = datetime.now(timezone.utc)
    alone = {**files, **{name: StoredFile(name, len(text), "", now) for name, text in written.items()}}
    seen = candidates(Listing("s3://b/l", alone), look_for, Contents(written))
    return any(one.name == candidate.name and not one.missing for one in seen)


class RemoteCheckpoints:
    """`keep` is how many complete ones stay; 0: all. Used by one thread."""

    def __init__(self, location: str, look_for: LookFor, keep: int) -> None:
        self.location, self._look_for, self._keep = location.rstrip("/"), look_for, keep
        self._held: dict[str, Held] = {}
        self._unfinished: list[str] = []
        self.is_file = names_a_file(location)
        self._resumed = ""  # the name of the one that this run resumed from, which stays

    def read_in(self, transfer: Transfer) -> list[CandidateCheckpoint]:
        """Learns what lies there. Returns the checkpoints that are complete by their names, the newest first."""
        files = transfer.listing(self.location)
        if self.is_file:
            files = {name: file for name, file in files.items() if name == os.path.basename(self.location)}
        listing = Listing(self.location, files, is_file=self.is_file)
        seen = candidates(listing, self._look_for, RemoteReader(transfer, self.folder))
        whole = sorted((one for one in seen if not one.missing), key=age, reverse=True)
        for one in whole:
            paths = [file.path for file in one.files.values()]
            self._held[one.name] = Held(one.name, _step(one), age(one)[1], paths)
        self._unfinished = [path for path in files if path.startswith(UPLOADING)]
        return whole

    def clean(self, transfer: Transfer) -> None:
        """Deletes what uploads of earlier attempts left unfinished."""
        for sign in self._unfinished:
            left = transfer.read(join(self.location, sign), 0, 16 << 20).decode("utf-8", "surrogateescape").splitlines()
            held = {path for one in self._held.values() for path in one.paths}
            transfer.delete(self.location, only=[path for path in left if path and path not in held])
            transfer.delete(self.location, only=[sign])
        self._unfinished = []

    @property
    def folder(self) -> str:
        """The location, or the folder of the one file that it names."""
        return os.path.dirname(self.location) if self.is_file else self.location

    def try_out(self, transfer: Transfer, attempt: str) -> None:
        """Writes a small file of our own: a missing permission is known before the command runs for hours."""
        transfer.write(join(self.folder, f"{OURS}attempt"), attempt.encode())

    def protect(self, name: str) -> None:
        self._resumed = name

    def upload(
        self, transfer: Transfer, upload: Upload, root: str, is_unchanged: Callable[[], bool], progress: Progress
    ) -> str:
        """Uploads a checkpoint of the folder, or the file, `root`. Returns its name at the location.

        Raises TransferFailed; then it is not complete there, unless it is a single file, which is there as a whole.
        """
        one = upload.candidate
        if self.is_file:
            transfer.upload(root, self.location, progress)
            return one.name
        prefix = "" if upload.is_one_file else self._slot(one.name)
        target = join(self.location, prefix.rstrip("/"))
        placed = in_slot(prefix, one) if prefix else one
        paths = [prefix + path for path in upload.paths]
        before = self._held.pop(placed.name, None)
        stale = [path for path in (before.paths if before is not None else ()) if path not in paths]
        if upload.is_one_file and not stale:
            transfer.upload(root, target, progress, only=upload.last)
        else:
            sign = UPLOADING + placed.name
            self._sign(transfer, sign, [*paths, *stale])
            transfer.upload(root, target, progress, only=upload.first)
            if not is_unchanged():
                raise TransferFailed(f"{one.name} changed while it was uploaded")
            transfer.upload(root, target, progress, only=upload.last)
            for name, content in upload.written.items():
                transfer.write(join(target, name), content)
            if not is_unchanged():
                raise TransferFailed(f"{one.name} changed while it was uploaded")
            transfer.delete(self.location, only=stale)
            transfer.delete(self.location, only=[sign])
        mine = [path for path in paths if path not in {prefix + name for name in upload.written}]
        self._held[placed.name] = Held(placed.name, _step(one), datetime.now(timezone.utc), mine)
        return placed.name

    def trim(self, transfer: Transfer) -> None:
        """Deletes all but the newest; what the run resumed from stays, and so does the newest of all."""
        newest = sorted(self._held.values(), key=lambda one: (one.step, one.written_at), reverse=True)
        for old in newest[self._keep :] if self._keep else ():
            if old.name != self._resumed:
                self._delete(transfer, old)

    def _delete(self, transfer: Transfer, old: Held) -> None:
        sign = UPLOADING + old.name
        if len(old.paths) > 1:
            self._sign(transfer, sign, old.paths)
        transfer.delete(self.location, only=old.paths)
        del self._held[old.name]
        if len(old.paths) > 1:
            transfer.delete(self.location, only=[sign])

    def _sign(self, transfer: Transfer, sign: str, paths: Sequence[str]) -> None:
        transfer.write(
            join(self.location, sign), "".join(f"{path}\n" for path in paths).encode("utf-8", "surrogateescape")
        )

    def _slot(self, name: str) -> str:
        """Where a checkpoint of this name goes: in place, unless that would break the only complete one."""
        if name not in self._held or len(self._held) > 1:
            return ""
        number = 1
        while any(held.startswith(f"{SLOTS}{number}/") or held == f"{SLOTS}{number}" for held in self._held):
            number += 1
        return f"{SLOTS}{number}/"


def slot_of(name: str) -> str:
    """The slot of a checkpoint at the location, with its slash; "" for one that lies at the location itself."""
    number = name[len(SLOTS) :].split("/")[0]
    return f"{SLOTS}{number}/" if name.startswith(SLOTS) else ""


def fingerprint(one: CandidateCheckpoint, listing: Listing) -> str:
    """Differs whenever a file of the checkpoint does, by the folder's listing."""
    held = sorted(
        (file.path, listing.files[file.path].tag) for file in one.files.values() if file.path in listing.files
    )
    return hashlib.sha256(repr((len(one.files), held)).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _step(one: CandidateCheckpoint) -> int:
    return -1 if one.step is None else one.step
