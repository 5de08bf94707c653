"""Gangs that really ran: what a killed one left on each node, as the frameworks wrote it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tests.checkpoints.places import START

from costguard_vm.checkpoints.gang import NodePart
from costguard_vm.checkpoints.layouts.base import FileChanged
from costguard_vm.model.checkpoint import Listing, StoredFile
from costguard_vm.model.gang import GangShape

T = TypeVar("T")
R = TypeVar("R")
FOLDER = Path(__file__).parent / "real" / "gangs"
NAMES = tuple(sorted(path.name[: -len(".json.gz")] for path in FOLDER.glob("*.json.gz")))


class Ranges:
    """The ranges that were recorded. Others count as changed meanwhile."""

    def __init__(self, ranges: Iterable[Sequence[Any]]) -> None:
        self.held = {(path, start): base64.b64decode(text) for path, start, text in ranges}

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        data = self.held.get((file.path, start), b"")[:length]
        if len(data) != length:
            raise FileChanged(file.path)
        return data

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        return [work(item) for item in items]


@dataclass(frozen=True)
class Recorded:
    """A run has the parts of its nodes, and for each save, newest first, whether its framework loads it."""

    shape: GangShape
    parts: tuple[NodePart, ...]
    saves: tuple[tuple[str, bool | None], ...]

    @property
    def newest(self) -> str:
        """The newest step that the framework loads."""
        return next(name for name, loads in self.saves if loads)


@cache
def recorded(name: str) -> Recorded:
    read = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    parts = tuple(
        NodePart(node, Listing("/runs/gang", _files(one["files"])), Ranges(one["ranges"]))
        for node, one in enumerate(read["parts"])
    )
    shape = GangShape(read["nodes"], read["per_node"], read["is_shared"])
    return Recorded(shape, parts, tuple((save["name"], save["loads"]) for save in read["saves"]))


def _files(sizes: dict[str, int]) -> dict[str, StoredFile]:
    return {path: StoredFile(path, size, "1", START) for path, size in sizes.items()}


def without(part: NodePart, *paths: str) -> NodePart:
    """The same part with these files lost."""
    files = {path: file for path, file in part.listing.files.items() if path not in paths}
    return replace(part, listing=replace(part.listing, files=files))


def emptied(part: NodePart) -> NodePart:
    """The part of a node whose disk is gone."""
    return without(part, *part.listing.files)


def folder_of(name: str, step: int) -> str:
    """The folder in which the framework of a recorded run saves a step."""
    return re.sub("[0-9]+", str(step), recorded(name).newest, count=1)


def saved_files(name: str, node: int, step: int) -> dict[str, bytes]:
    """The files that one node holds of a save that was recorded, and the framework's note of its newest.

    Their names and sizes are the framework's, and so are all bytes that the judge reads; others are zeros. It is the
    newest save that the framework loads, under the name of this step.
    """
    run, folder = recorded(name), folder_of(name, step)
    part = run.parts[node]
    held = {path: file for path, file in part.listing.files.items() if path.startswith(f"{run.newest}/")}
    bodies = {f"{folder}/{path.partition('/')[2]}": _body(part, file) for path, file in held.items()}
    return bodies if "latest" not in part.listing.files else {**bodies, "latest": folder.encode()}


def _body(part: NodePart, file: StoredFile) -> bytes:
    body = bytearray(file.size)
    assert isinstance(part.reader, Ranges)
    for (path, start), data in part.reader.held.items():
        if path == file.path:
            body[start : start + len(data)] = data
    return bytes(body)
