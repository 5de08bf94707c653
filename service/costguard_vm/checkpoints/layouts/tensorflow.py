"""TensorFlow: `ckpt-N.data-i-of-n` and `ckpt-N.index`; the index ends in a mark of its own."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Callable

from costguard_vm.checkpoints.layouts.base import (
    CandidateCheckpoint,
    Files,
    Problems,
    RangeReader,
    Tree,
    last_number,
    listed,
    missing,
    text_of,
)
from costguard_vm.checkpoints.layouts.formats import problem_of
from costguard_vm.model.checkpoint import Framework, StoredFile

_WEIGHTS, _ABOUT = "latest.weights.h5", "training_metadata.json"
_BACKUP = ".bkp"


def find_keras(tree: Tree) -> Iterable[CandidateCheckpoint]:
    """The backup before counts only where Keras goes back to it."""
    names = (_WEIGHTS, _ABOUT, _WEIGHTS + _BACKUP, _ABOUT + _BACKUP)
    files = {name: tree.files[name] for name in names if name in tree.files}
    latest = {name: file for name, file in files.items() if not name.endswith(_BACKUP)}
    before = {name: file for name, file in files.items() if name.endswith(_BACKUP)}
    if _WEIGHTS in latest or (latest and tree.look_for.framework):  # many write a training_metadata.json
        yield _keras_candidate(latest, _WEIGHTS, _ABOUT, tree.reader, missing(latest, _WEIGHTS), _latest)
    if _WEIGHTS + _BACKUP in before:
        lacking = missing(before, _WEIGHTS + _BACKUP)
        if _WEIGHTS not in latest:
            lacking.append(f"Keras does not look at it without a {_WEIGHTS}.")
        check = partial(_before, files.get(_WEIGHTS))
        yield _keras_candidate(before, _WEIGHTS + _BACKUP, _ABOUT + _BACKUP, tree.reader, lacking, check)


def _keras_candidate(
    files: Files, weights: str, metadata: str, reader: RangeReader, lacking: Problems, check: Callable[..., Problems]
) -> CandidateCheckpoint:
    """Keras is given the folder, and finds either in it."""
    step = _epoch(files[metadata], reader) if metadata in files else 0
    return CandidateCheckpoint(
        Framework.KERAS, weights, "", step, files, lacking, partial(check, files, weights, metadata)
    )


def _latest(files: Files, weights: str, metadata: str, reader: RangeReader) -> Problems:
    """Where weights are whole and metadata is cut off, Keras stops: it goes back only from weights it cannot open."""
    problems = [problem for problem in [problem_of(files[weights], reader)] if problem]
    if metadata in files and _epoch(files[metadata], reader) is None:
        problems.append(f"{metadata} is cut off or tells no epoch, and Keras would stop there: remove it.")
    return problems


def _before(latest: StoredFile | None, files: Files, weights: str, metadata: str, reader: RangeReader) -> Problems:
    if latest is not None and not problem_of(latest, reader):
        return [f"Keras loads {_WEIGHTS}, which is whole, and goes back to this one only from one that is not."]
    return _latest(files, weights, metadata, reader)


def _epoch(file: StoredFile, reader: RangeReader) -> int | None:
    try:
        metadata = json.loads(text_of(file, reader))
        return int(metadata["epoch"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


_FILE = re.compile(r"(?P<stem>.+?)\.(?:index|data-(?P<part>[0-9]{5})-of-(?P<parts>[0-9]{5}))")
_TEMPORARY = re.compile(r"(?P<stem>.+-[0-9]+)_temp(?:_[0-9a-f]+)?")
_TABLE_END = bytes.fromhex("57fb808b247547db")


def find_tensorflow(tree: Tree) -> Iterable[CandidateCheckpoint]:
    stems: dict[str, dict[str, StoredFile]] = defaultdict(dict)
    for name, file in tree.files.items():
        if match := _FILE.fullmatch(name):
            stems[match["stem"]][name] = file
    for name, files in tree.folders.items():
        match = _TEMPORARY.fullmatch(name)
        if match and match["stem"] not in stems:
            unfinished = [f"Its parts still lie in {name}: saving was not finished."]
            yield _candidate(match["stem"], {f"{name}/{inner}": file for inner, file in files.items()}, unfinished)
    for stem, held in stems.items():
        yield _candidate(stem, held, _missing(stem, held))


def _candidate(stem: str, files: Files, lacking: Problems) -> CandidateCheckpoint:
    return CandidateCheckpoint(
        Framework.TENSORFLOW, stem, stem, last_number(stem), files, lacking, partial(_inside, stem, files)
    )


def _missing(stem: str, files: Files) -> Problems:
    lacking = missing(files, f"{stem}.index")
    counts = {int(match["parts"]) for name in files if (match := _FILE.fullmatch(name)) and match["parts"]}
    if not counts:
        return [*lacking, f"{stem}.data-00000-of-00001 is missing."]
    parts = max(counts)
    absent = [name for part in range(parts) if (name := f"{stem}.data-{part:05d}-of-{parts:05d}") not in files]
    return lacking + ([f"{listed(absent)}: missing, of {parts} parts."] if absent else [])


def _inside(stem: str, files: Files, reader: RangeReader) -> Problems:
    index = files[f"{stem}.index"]
    begin = max(0, index.size - len(_TABLE_END))
    if reader.read(index, begin, index.size - begin) != _TABLE_END:
        return [f"{stem}.index does not end as an index does: it was cut off, or is still written."]
    return []
