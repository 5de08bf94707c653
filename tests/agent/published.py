"""A store held in memory that can end at any step, and what must always hold of a published output."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from costguard_vm.agent.transfers.outputs import MARKER
from costguard_vm.agent.transfers.transfer import Transfer, TransferProgress
from costguard_vm.model.checkpoint import StoredFile


class VmGone(BaseException):
    """The VM lost its power: no code of the agent runs after this."""


class MemoryStore(Transfer):
    """Objects by address. Each step of every call is one object written, copied or deleted; `left` steps are done."""

    def __init__(self, objects: dict[str, bytes] | None = None, left: int = 1 << 30) -> None:
        self.objects = {} if objects is None else objects
        self.left = left
        self.on_step: Callable[[], None] = lambda: None

    def step(self) -> None:
        self.on_step()
        if self.left == 0:
            raise VmGone
        self.left -= 1

    def listing(self, uri: str) -> dict[str, StoredFile]:
        head = f"{uri.rstrip('/')}/"
        at = datetime(2026, 11, 22, tzinfo=UTC)
        names = {name.removeprefix(head): body for name, body in self.objects.items() if name.startswith(head)}
        return {name: StoredFile(name, len(body), "", at) for name, body in names.items()}

    def read(self, uri: str, start: int, length: int) -> bytes:
        return self.objects[uri][start : start + length]

    def write(self, uri: str, content: bytes) -> None:
        self.step()
        self.objects[uri] = content

    def delete(self, uri: str, only: Sequence[str] | None = None) -> None:
        names = (
            [uri, *(f"{uri}/{name}" for name in self.listing(uri))] if only is None else [f"{uri}/{n}" for n in only]
        )
        for name in names:
            if name in self.objects:
                self.step()
                del self.objects[name]

    def upload(self, path: str, uri: str, progress: Any = None, only: Sequence[str] | None = None) -> TransferProgress:
        for name in only or [""]:
            self.step()
            self.objects[f"{uri}/{name}" if name else uri] = Path(path, name).read_bytes()
        return TransferProgress()

    def copy(
        self, source_uri: str, target_uri: str, progress: Any = None, only: Sequence[str] | None = None
    ) -> TransferProgress:
        for name in only or [""]:
            self.step()
            end = f"/{name}" if name else ""
            self.objects[f"{target_uri}{end}"] = self.objects[f"{source_uri}{end}"]
        return TransferProgress()


def published(objects: dict[str, bytes], destination: str) -> dict[str, bytes] | None:
    """Returns a reader's view of the destination: nothing without the marker.

    Costguard's own folder is no part of it.
    """
    head = f"{destination}/"
    if f"{head}{MARKER}" not in objects:
        return None
    names = (name.removeprefix(head) for name in objects if name.startswith(head))
    return {name: objects[f"{head}{name}"] for name in names if name != MARKER and not name.startswith(".costguard/")}


def marker(objects: dict[str, bytes], destination: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(objects[f"{destination}/{MARKER}"])
    return document


def fill(folder: Path, files: dict[str, bytes]) -> None:
    """Exactly these files in the folder."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
