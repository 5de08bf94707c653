"""The checkpoints at the job's location: uploaded, replaced and deleted so that no torn one ever looks whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Callable, NamedTuple, Optional, Sequence, TypeVar

from costguard_vm.agent.failures import NothingThere, TransferFailed
from costguard_vm.checkpoints.best import Best, Evaluations, KnownValues, to_delete
from costguard_vm.checkpoints.judge import age, candidates
from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint, FileChanged, join
from costguard_vm.checkpoints.layouts.megatron import TRACKER
from costguard_vm.checkpoints.layouts.plain import STEP, StepPattern
from costguard_vm.checkpoints.uploads import OURS, SLOTS, UPLOADING, in_order, in_slot, note_of, parts_of
from costguard_vm.model.checkpoint import Framework, Listing, LookFor, StoredFile, names_a_file

from .transfer import Progress, Transfer

BEST = f"{OURS}best.json"  # the note of checkpoints' values
_LARGEST_NOTE = 1 << 20  # bytes

T = TypeVar("T")
R = TypeVar("R")
Put = Callable[[str, Sequence[str]], object]  # brings files, by their paths in the folder, to a place


class Held(NamedTuple):
    """A complete checkpoint at the location. `groups` are its paths below the location, in the order of the upload."""

    name: str
    step: int
    written_at: datetime
    groups: Sequence[Sequence[str]]
    pointer: Mapping[str, bytes]

    @property
    def paths(self) -> list[str]:
        return [path for group in self.groups for path in group]


class Chosen(NamedTuple):
    """A checkpoint to publish. `value` is the metric's; None: it is not known. `is_best`: it was chosen by that."""

    held: Held
    value: Optional[float]  # noqa: UP045  evaluated by Python 3.8
    is_best: bool


class RemoteReader:
    """Ranges of files at a location, for the layouts."""

    def __init__(self, transfer: Transfer, location: str) -> None:
        self._transfer, self._location = transfer, location

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        try:
            data = self._transfer.read(join(self._location, file.path), start, length)
        except NothingThere:
            raise FileChanged(file.path) from None
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
    """The files to upload for one checkpoint, one group after another; `written` has contents of our own."""

    candidate: CandidateCheckpoint
    groups: Sequence[Sequence[str]]
    written: Mapping[str, bytes]

    @property
    def paths(self) -> list[str]:
        return [path for group in self.groups for path in group]

    @property
    def is_one_file(self) -> bool:
        return len(self.paths) + len(self.written) == 1


def planned(candidate: CandidateCheckpoint, listing: Listing, look_for: LookFor) -> Upload | None:
    """Plans an upload; None where the checkpoint is not one by itself, as Keras's backup is not without the newer
    weights.
    """
    files = {file.path: file for file in candidate.files.values()}
    if listing.is_file:
        return Upload(candidate, [list(files)], {})
    marked_by = markers(candidate, listing, look_for)
    files.update((path, listing.files[path]) for path in marked_by)
    written = pointer(candidate)
    if not _stands(candidate, files, written, look_for):
        return None
    return Upload(candidate, in_order(candidate, marked_by, look_for.marker), written)


def markers(candidate: CandidateCheckpoint, listing: Listing, look_for: LookFor) -> list[str]:
    """The paths of the markers of its step, where they lie next to it."""
    if STEP not in look_for.marker:
        return []
    pattern = StepPattern(look_for.marker)
    return [file.path for name, file in listing.files.items() if pattern.step_of(name) == candidate.step]


def pointer(candidate: CandidateCheckpoint) -> dict[str, bytes]:
    """The file in which a framework names its newest checkpoint, where it does not load one without."""
    if candidate.framework is Framework.DEEPSPEED:
        return {"latest": candidate.name.encode()}
    if candidate.framework is Framework.MEGATRON:
        return {TRACKER: str(candidate.step).encode()}
    return {}


def _stands(
    candidate: CandidateCheckpoint, files: Mapping[str, StoredFile], written: Mapping[str, bytes], look_for: LookFor
) -> bool:
    """Says whether names alone show a complete checkpoint where there is nothing but these files."""
    now = datetime.now(timezone.utc)
    alone = {**files, **{name: StoredFile(name, len(text), "", now) for name, text in written.items()}}
    seen = candidates(Listing("s3://b/l", alone), look_for, Contents(written))
    return any(one.name == candidate.name and not one.missing for one in seen)


class RemoteCheckpoints:
    """`keep` is how many complete ones stay; 0: all. Used by one thread."""

    def __init__(self, location: str, look_for: LookFor, keep: int, better: str = "") -> None:
        self._values, self.evaluations = KnownValues(better), Evaluations()
        self._own: set[str] = set()  # the names of those that this run has uploaded
        self.location, self._look_for, self._keep = location.rstrip("/"), look_for, keep
        self._held: dict[str, Held] = {}
        self._unfinished: list[str] = []
        self._begun: dict[str, list[Sequence[Sequence[str]]]] = {}  # what failed uploads may have left, by name
        self.is_file = names_a_file(location)
        self._there: Mapping[str, StoredFile] = {}  # all that lay there when it was read in
        self._resumed = ""  # the name of the one that this run resumed from, which stays

    def read_in(self, transfer: Transfer) -> list[CandidateCheckpoint]:
        """Learns what lies there. Returns the checkpoints that are complete by their names, the newest first."""
        files = transfer.listing(self.location)
        if self.is_file:
            files = {name: file for name, file in files.items() if name == os.path.basename(self.location)}
        listing = Listing(self.location, files, is_file=self.is_file)
        seen = candidates(listing, self._look_for, RemoteReader(transfer, self.folder))
        whole = sorted((one for one in seen if not one.missing), key=age, reverse=True)
        plain, slots, _ = parts_of(listing)
        for one in whole:
            slot = slot_of(one.name)
            groups = in_order(one, markers(one, slots.get(slot, plain), self._look_for), self._look_for.marker)
            named = pointer(replace(one, name=one.name[len(slot) :]))
            self._held[one.name] = Held(one.name, step_of(one.step), age(one)[1], groups, named)
        self._there, self._own = files, set()
        if self._values.is_wanted and BEST in files:
            with contextlib.suppress(NothingThere):
                note = transfer.read(join(self.location, BEST), 0, min(files[BEST].size, _LARGEST_NOTE))
                self._values.read(note, self._held)
        self._unfinished = [path for path in files if path.startswith(UPLOADING)]
        return whole

    def clean(self, transfer: Transfer) -> None:
        """Deletes what earlier attempts left unfinished, once a framework's note of its newest names a whole one."""
        if self._unfinished and (newest := self._newest()) is not None:
            for name, content in newest.pointer.items():
                transfer.write(join(self.location, name), content)
        for sign in self._unfinished:
            try:
                text = transfer.read(join(self.location, sign), 0, 16 << 20).decode("utf-8", "surrogateescape")
            except NothingThere:
                continue  # the VM before was in its last seconds, and has finished
            held = {path for one in self._held.values() for path in one.paths}
            for group in text.split("\n\n"):
                transfer.delete(self.location, only=[path for path in group.split("\n") if path and path not in held])
            transfer.delete(self.location, only=[sign])
        self._unfinished = []

    def held(self, name: str) -> list[str]:
        """Returns what stands before the path of each whole checkpoint of this name that lies there: "" or a slot."""
        return [slot_of(one) for one in self._held if one == slot_of(one) + name]

    def has(self, name: str, sizes: Mapping[str, int], since: datetime) -> bool:
        """Says whether a whole checkpoint of this name lay there with files of these sizes, no older than `since`."""
        there = ({path: self._there.get(slot + path) for path in sizes} for slot in self.held(name))
        return any(
            all(
                file is not None and file.size == sizes[path] and file.modified_at >= since
                for path, file in files.items()
            )
            for files in there
        )

    @property
    def newest_step(self) -> int:
        """The step of the newest complete one; -2 where there is none."""
        return max((one.step for one in self._held.values()), default=-2)

    def _newest(self) -> Held | None:
        """Returns the newest of those that lie at the location itself."""
        here = [one for one in self._held.values() if not one.name.startswith(SLOTS)]
        return max(here, key=lambda one: (one.step, one.written_at), default=None)

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
        self,
        transfer: Transfer,
        upload: Upload,
        root: str,
        is_unchanged: Callable[[], bool],
        progress: Progress,
        put: Put | None = None,
    ) -> str:
        """Uploads a checkpoint of the folder, or the file, `root`, or what `put` brings. Returns its name there.

        Raises TransferFailed; then it is not complete there, unless it is a single file, which is there as a whole.
        """
        one = upload.candidate
        if self.is_file:
            transfer.upload(root, self.location, progress)
            return one.name
        put = put or (lambda target, group: transfer.upload(root, target, progress, only=group))
        prefix = "" if upload.is_one_file else self._slot(one.name)
        target = join(self.location, prefix.rstrip("/"))
        placed = in_slot(prefix, one) if prefix else one
        paths = [prefix + path for path in upload.paths]
        before = self._held.pop(placed.name, None)
        self._values.forget(placed.name)
        groups = [[prefix + path for path in group] for group in upload.groups]
        if upload.is_one_file:
            put(target, upload.paths)
        else:
            sign = note_of(placed.name)
            there = [*([before.groups] if before is not None else []), *self._begun.get(placed.name, [])]
            stale = sorted({path for was in there for group in was for path in group} - set(paths))
            self._begun[placed.name] = [*there, groups]
            slot_only = [[prefix + name for name in upload.written]] if prefix else []
            self._sign(transfer, sign, [stale, *groups, *slot_only])
            for group in (group for was in there for group in reversed(was[1:])):
                transfer.delete(self.location, only=group)  # from here on it is torn for everybody
            transfer.delete(self.location, only=stale)
            *first, last = upload.groups
            for group in first:
                put(target, group)
            if not is_unchanged():
                raise TransferFailed(f"{one.name} changed while it was uploaded")
            put(target, last)
            if not is_unchanged():
                transfer.delete(target, only=last)
                raise TransferFailed(f"{one.name} changed while it was uploaded")
            newest = self._newest()
            if prefix or newest is None or newest.step <= step_of(one.step):
                for name, content in upload.written.items():
                    transfer.write(join(target, name), content)
            transfer.delete(self.location, only=[sign])
            del self._begun[placed.name]
        now = datetime.now(timezone.utc)
        self._held[placed.name] = Held(placed.name, step_of(one.step), now, groups, upload.written)
        self._own.add(placed.name)
        return placed.name

    def best_of(self, names: Sequence[tuple[str, int]]) -> str:
        """Returns which of these checkpoints of this run is the best, by name and step; "" where that is not known."""
        values = KnownValues(self._values.better)
        values.learn(dict(names), self.evaluations, [name for name, step in names if step >= 0])
        best = values.best()
        return best.name if best is not None else ""

    def best(self, transfer: Transfer) -> Best | None:
        """Returns the best by the job's metric, as far as its values are known, and notes them for the next run."""
        if not self._values.is_wanted or self.is_file:
            return None
        steps = {one.name: one.step for one in self._held.values() if one.step >= 0}
        if self._values.learn(steps, self.evaluations, self._own):
            transfer.write(join(self.location, BEST), self._values.note())
        return self._values.best()

    def chosen(self, is_best: bool) -> Chosen | None:
        """Returns what to publish of those that were read in: the best by the values noted there, else the newest."""
        best = self._values.best() if is_best else None
        if best is not None:
            return Chosen(self._held[best.name], best.value, True)
        newest = max(self._held.values(), key=lambda one: (one.step, one.written_at), default=None)
        return Chosen(newest, self._values.of(newest.name), False) if newest is not None else None

    def trim(self, transfer: Transfer) -> Best | None:
        """Deletes all but the newest. What the run resumed from stays, and so does the best, which is returned.

        Its note is written before anything is deleted: the agent of the next VM spares it, too.
        """
        best = self.best(transfer)
        newest = sorted(self._held.values(), key=lambda one: (one.step, one.written_at), reverse=True)
        always = {self._resumed, best.name if best is not None else ""}
        for name in to_delete([one.name for one in newest], self._keep, always):
            self._delete(transfer, self._held[name])
        return best

    def _delete(self, transfer: Transfer, old: Held) -> None:
        sign = note_of(old.name)
        if len(old.paths) > 1:
            self._sign(transfer, sign, old.groups)
        for group in reversed(old.groups):
            transfer.delete(self.location, only=group)
        del self._held[old.name]
        if len(old.paths) > 1:
            transfer.delete(self.location, only=[sign])

    def _sign(self, transfer: Transfer, sign: str, groups: Sequence[Sequence[str]]) -> None:
        """Names the files in the order in which they are to be deleted: a line each, an empty one between groups."""
        text = "\n\n".join("\n".join(group) for group in reversed(groups) if group) + "\n"
        transfer.write(join(self.location, sign), text.encode("utf-8", "surrogateescape"))

    def _slot(self, name: str) -> str:
        """Returns where a checkpoint of this name goes: in place, unless that would break the only complete one."""
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


def step_of(step: int | None) -> int:
    """A step to compare with others; one that is not known is the oldest."""
    return -1 if step is None else step
