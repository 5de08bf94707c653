"""Records killed gangs for fast tests: names and sizes of what they left, and the ranges that the judge reads."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tests.trainers.gangs.client import Shape

from costguard_vm.checkpoints.folder import Folder
from costguard_vm.checkpoints.gang import NodePart, judge_gang
from costguard_vm.model.checkpoint import LookFor, StoredFile
from costguard_vm.model.gang import GangShape

T = TypeVar("T")
R = TypeVar("R")


class _Recorder:
    """Reads like the folder, and keeps what was read."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._longest: dict[tuple[str, int], bytes] = {}

    @property
    def ranges(self) -> list[list[object]]:
        """Path, start and bytes, the longest of each start."""
        return [[path, start, base64.b64encode(data).decode()] for (path, start), data in self._longest.items()]

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        data = self._folder.read(file, start, length)
        if length > len(self._longest.get((file.path, start), b"")):
            self._longest[file.path, start] = data
        return data

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]


def record(home: Path, shape: Shape, into: Path) -> None:
    """Writes a run of `gangs.kills` as one small file: its shape, its truth, and each node's files and ranges."""
    parts, recorders = [], []
    for node, path in enumerate(dict.fromkeys(shape.folders(home))):
        folder = Folder(str(path), "/runs/gang")
        recorders.append(_Recorder(folder))
        parts.append(NodePart(node, folder.listing(), recorders[-1]))
    judge_gang(parts, GangShape(shape.nodes, shape.per_node, shape.is_shared), LookFor())
    nodes = [
        {"files": {path: file.size for path, file in part.listing.files.items()}, "ranges": recorder.ranges}
        for part, recorder in zip(parts, recorders, strict=True)
    ]
    text = json.dumps({**json.loads((home / "truth.json").read_text()), "parts": nodes})
    into.write_bytes(gzip.compress(text.encode(), mtime=0))
