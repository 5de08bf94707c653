"""TensorFlow: `ckpt-N.data-i-of-n` and `ckpt-N.index`; the index ends in a mark of its own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from costguard.checkpoints.layouts.base import Candidate, Files, Problems, Reader, Tree, last_number, listed, missing
from costguard.model.checkpoint import Framework, StoredFile

_FILE = re.compile(r"(?P<stem>.+?)\.(?:index|data-(?P<part>[0-9]{5})-of-(?P<parts>[0-9]{5}))")
_TEMPORARY = re.compile(r"(?P<stem>.+-[0-9]+)_temp(?:_[0-9a-f]+)?")
_TABLE_END = bytes.fromhex("57fb808b247547db")


def find(tree: Tree) -> Iterable[Candidate]:
    stems: dict[str, dict[str, StoredFile]] = defaultdict(dict)
    for name, file in tree.files.items():
        if found := _FILE.fullmatch(name):
            stems[found["stem"]][name] = file
    for name, files in tree.folders.items():
        found = _TEMPORARY.fullmatch(name)
        if found and found["stem"] not in stems:
            unfinished = [f"Its parts still lie in {name}: saving was not finished."]
            yield _candidate(found["stem"], {f"{name}/{inner}": file for inner, file in files.items()}, unfinished)
    for stem, held in stems.items():
        yield _candidate(stem, held, _missing(stem, held))


def _candidate(stem: str, files: Files, lacking: Problems) -> Candidate:
    return Candidate(Framework.TENSORFLOW, stem, stem, last_number(stem), files, lacking, partial(_inside, stem, files))


def _missing(stem: str, files: Files) -> Problems:
    lacking = missing(files, f"{stem}.index")
    counts = {int(found["parts"]) for name in files if (found := _FILE.fullmatch(name)) and found["parts"]}
    if not counts:
        return [*lacking, f"{stem}.data-00000-of-00001 is missing."]
    parts = max(counts)
    absent = [name for part in range(parts) if (name := f"{stem}.data-{part:05d}-of-{parts:05d}") not in files]
    return lacking + ([f"{listed(absent)}: missing, of {parts} parts."] if absent else [])


def _inside(stem: str, files: Files, reader: Reader) -> Problems:
    index = files[f"{stem}.index"]
    begin = max(0, index.size - len(_TABLE_END))
    if reader.read(index, begin, index.size - begin) != _TABLE_END:
        return [f"{stem}.index does not end as an index does: it was cut off, or is still written."]
    return []
