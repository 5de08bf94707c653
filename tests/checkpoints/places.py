"""Places held in memory: a listing and a reader of the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from costguard_vm.checkpoints.judge import judge
from costguard_vm.checkpoints.layouts.base import FileChanged
from costguard_vm.model.checkpoint import CheckpointLook, Listing, LookFor, StoredFile

T = TypeVar("T")
R = TypeVar("R")
START = datetime(2026, 11, 20, 12, tzinfo=UTC)
WHERE = "gs://runs/one"
Written = tuple[str, bytes]


class Memory:
    """Files in their order of writing, a second apart; a later write replaces an earlier one."""

    def __init__(self, written: Iterable[Written], where: str = WHERE) -> None:
        self.contents: dict[str, bytes] = {}
        self.asked: list[tuple[str, int, int]] = []
        files: dict[str, StoredFile] = {}
        for number, (path, body) in enumerate(written):
            self.contents[path] = body
            files[path] = StoredFile(path, len(body), f"{number}", START + timedelta(seconds=number))
        self.listing = Listing(where, files)

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        self.asked.append((file.path, start, length))
        body = self.contents.get(file.path, b"")[start : start + length]
        if len(body) != length:
            raise FileChanged(file.path)
        return body

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]

    def look(self, look_for: LookFor | None = None, earlier: Listing | None = None, examine: int = 1) -> CheckpointLook:
        return judge(self.listing, look_for or LookFor(), self, earlier, examine)


def reasons(look: CheckpointLook, name: str) -> str:
    """Returns why this one is not complete."""
    (checkpoint,) = (one for one in look.checkpoints if one.name == name)
    return " ".join(checkpoint.reasons)


def below(folder: str, files: Mapping[str, bytes]) -> list[Written]:
    return [(f"{folder}/{name}", body) for name, body in files.items()]
