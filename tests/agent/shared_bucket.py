"""A bucket in memory that several agents write to, one object after the other, and the disks that they upload from."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from tests.checkpoints.places import Memory
from tests.crashing import CrashPoint

from costguard_vm.agent.failures import NothingThere, TransferFailed
from costguard_vm.agent.transfers.transfer import Only, Progress, Transfer, TransferProgress
from costguard_vm.checkpoints.parts import PARTS
from costguard_vm.model.checkpoint import StoredFile

LOCATION = "s3://lab/run"
_TIMES = itertools.count(1)


class Save(NamedTuple):
    """A save of all nodes in a round: nothing of two of them may be in one checkpoint."""

    round: int
    step: int
    again: int = 0


class Stored(NamedTuple):
    body: bytes
    save: Save | None  # None: a file of our own
    serial: int


def _none(_: TransferProgress) -> None:
    pass


class SharedBucket(Transfer):
    """Stands in for rclone. Every object is written or deleted by itself, and each of these may be the agent's end."""

    def __init__(self) -> None:
        self.files: dict[str, Stored] = {}
        self.disks: dict[str, tuple[bytes, Save]] = {}  # what lies on the nodes' disks, by path
        self.fuse = CrashPoint()
        self.steps = 0
        self.check: Callable[[], None] = lambda: None
        self._serials = itertools.count(1)

    def listing(self, uri: str) -> dict[str, StoredFile]:
        head = f"{_below(uri)}/".lstrip("/")
        return (
            {path: file for path, file in self.memory().listing.files.items() if path.startswith(head)}
            if not head
            else {
                path[len(head) :]: StoredFile(path[len(head) :], file.size, file.tag, file.modified_at)
                for path, file in self.memory().listing.files.items()
                if path.startswith(head)
            }
        )

    def read(self, uri: str, start: int, length: int) -> bytes:
        stored = self.files.get(_below(uri))
        if stored is None:
            raise NothingThere(f"nothing is at {uri}", True)
        return stored.body[start : start + length]

    def write(self, uri: str, content: bytes) -> None:
        self._put(_below(uri), content, None)

    def delete(self, uri: str, only: Only = None) -> None:
        head = f"{_below(uri)}/".lstrip("/")
        names = (
            [path for path in self.files if path.startswith(head)] if only is None else [head + name for name in only]
        )
        for path in names:
            if path in self.files:
                self._step()
                del self.files[path]
                self._look(path)

    def upload(self, path: str, uri: str, progress: Progress = _none, only: Only = None) -> TransferProgress:
        assert only is not None
        for name in only:
            source = os.path.join(path, name)
            if not os.path.exists(source):
                raise TransferFailed(f"{source} vanished while it was uploaded to {uri}")
            self._put(f"{_below(uri)}/{name}".lstrip("/"), *self.disks[source])
        return TransferProgress()

    def copy(self, source_uri: str, target_uri: str, progress: Progress = _none, only: Only = None) -> TransferProgress:
        assert only is not None
        for name in only:
            stored = self.files.get(f"{_below(source_uri)}/{name}")
            if stored is None:
                raise TransferFailed(f"{source_uri}/{name} does not exist: nothing was copied to {target_uri}", True)
            self._put(f"{_below(target_uri)}/{name}".lstrip("/"), stored.body, stored.save)
        return TransferProgress()

    def download(self, uri: str, path: str, progress: Progress = _none, only: Only = None) -> TransferProgress:
        assert only is not None
        for name in only:
            stored = self.files[f"{_below(uri)}/{name}".lstrip("/")]
            assert stored.save is not None
            put_on_disk(self, os.path.join(path, name), stored.body, stored.save)
        return TransferProgress()

    def memory(self) -> Memory:
        memory = Memory([(path, stored.body) for path, stored in self.files.items()], LOCATION)
        for path, file in memory.listing.files.items():
            object.__setattr__(file, "tag", str(self.files[path].serial))
        return memory

    def _put(self, path: str, body: bytes, save: Save | None) -> None:
        self._step()
        self.files.pop(path, None)
        self.files[path] = Stored(body, save, next(self._serials))
        self._look(path)

    def _step(self) -> None:
        self.steps += 1
        self.fuse.step()

    def _look(self, path: str) -> None:
        if not path.startswith(PARTS):
            self.check()


def _below(uri: str) -> str:
    assert uri.startswith(LOCATION), uri
    return uri.removeprefix(LOCATION).removeprefix("/")


def put_on_disk(bucket: SharedBucket, path: str, body: bytes, save: Save) -> None:
    """Writes a file whose zeros take no room, at a time of its own."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.new"
    with open(new, "wb") as file:
        for start, part in _parts(body):
            file.seek(start)
            file.write(part)
        file.truncate(len(body))
    at = 1_790_000_000_000_000_000 + next(_TIMES) * 1_000_000
    os.utime(new, ns=(at, at))
    os.replace(new, path)
    bucket.disks[path] = (body, save)


@cache
def _parts(body: bytes) -> list[tuple[int, bytes]]:
    size = 1 << 12
    parts = ((start, body[start : start + size]) for start in range(0, len(body), size))
    return [(start, part) for start, part in parts if any(part)]
