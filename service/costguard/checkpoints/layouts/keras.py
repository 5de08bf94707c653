"""Keras' BackupAndRestore: what Keras itself will load decides, since it looks into its folder by itself.

Source: `_load_model` and `on_train_begin` in keras/src/callbacks/backup_and_restore.py of Keras 3.15. It loads
`latest.weights.h5` and then the epoch out of `training_metadata.json`, where that is there. Where the weights cannot be
opened (an OSError) it copies both `.bkp` files over them and loads again; any other error ends the training.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Callable, Iterable

from costguard.checkpoints.layouts.base import Candidate, Files, Problems, Reader, Tree, missing, text_of
from costguard.checkpoints.layouts.formats import problem_of
from costguard.model.checkpoint import Framework, StoredFile

_WEIGHTS, _ABOUT = "latest.weights.h5", "training_metadata.json"
_BACKUP = ".bkp"


def find(tree: Tree) -> Iterable[Candidate]:
    """The backup before counts only where Keras goes back to it."""
    names = (_WEIGHTS, _ABOUT, _WEIGHTS + _BACKUP, _ABOUT + _BACKUP)
    files = {name: tree.files[name] for name in names if name in tree.files}
    latest = {name: file for name, file in files.items() if not name.endswith(_BACKUP)}
    before = {name: file for name, file in files.items() if name.endswith(_BACKUP)}
    if _WEIGHTS in latest or (latest and tree.look_for.framework):  # many write a training_metadata.json
        yield _candidate(latest, _WEIGHTS, _ABOUT, tree.reader, missing(latest, _WEIGHTS), _latest)
    if _WEIGHTS + _BACKUP in before:
        lacking = missing(before, _WEIGHTS + _BACKUP)
        if _WEIGHTS not in latest:
            lacking.append(f"Keras does not look at it without a {_WEIGHTS}.")
        check = partial(_before, files.get(_WEIGHTS))
        yield _candidate(before, _WEIGHTS + _BACKUP, _ABOUT + _BACKUP, tree.reader, lacking, check)


def _candidate(
    files: Files, weights: str, about: str, reader: Reader, lacking: Problems, check: Callable[..., Problems]
) -> Candidate:
    """Keras is given the folder, and finds either in it."""
    step = _epoch(files[about], reader) if about in files else 0
    return Candidate(Framework.KERAS, weights, "", step, files, lacking, partial(check, files, weights, about))


def _latest(files: Files, weights: str, about: str, reader: Reader) -> Problems:
    """Where weights are whole and metadata is cut off, Keras stops: it goes back only from weights it cannot open."""
    found = [problem for problem in [problem_of(files[weights], reader)] if problem]
    if about in files and _epoch(files[about], reader) is None:
        found.append(f"{about} is cut off or tells no epoch, and Keras would stop there: remove it.")
    return found


def _before(latest: StoredFile | None, files: Files, weights: str, about: str, reader: Reader) -> Problems:
    if latest is not None and not problem_of(latest, reader):
        return [f"Keras loads {_WEIGHTS}, which is whole, and goes back to this one only from one that is not."]
    return _latest(files, weights, about, reader)


def _epoch(file: StoredFile, reader: Reader) -> int | None:
    try:
        about = json.loads(text_of(file, reader))
        return int(about["epoch"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
