"""Keras' BackupAndRestore: weights, then metadata, written over the ones before; `.bkp` holds those where asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial

from costguard.checkpoints.layouts.base import Candidate, Files, Problems, Reader, Tree, missing, text_of
from costguard.checkpoints.layouts.formats import problems_of
from costguard.model.checkpoint import Framework, StoredFile

_WEIGHTS, _ABOUT = "latest.weights.h5", "training_metadata.json"


def find(tree: Tree) -> Iterable[Candidate]:
    for suffix in ("", ".bkp"):
        names = (_WEIGHTS + suffix, _ABOUT + suffix)
        files = {name: tree.files[name] for name in names if name in tree.files}
        if names[0] in files or (files and tree.look_for.framework):  # many write a training_metadata.json
            lacking = [*missing(files, *names), *_order(files, *names)]
            step = _epoch(files.get(names[1]), tree.reader)
            # Keras finds the backup in the same folder by itself.
            yield Candidate(Framework.KERAS, names[0], "", step, files, lacking, partial(_inside, files, *names))


def _order(files: Files, weights: str, about: str) -> Problems:
    """Killed between the two, new weights stand beside what was told of the old ones."""
    if len(files) == 2 and files[about].modified_at < files[weights].modified_at:
        return [f"{about} is older than {weights}: saving was not finished."]
    return []


def _epoch(file: StoredFile | None, reader: Reader) -> int | None:
    try:
        about = json.loads(text_of(file, reader))
        return int(about["epoch"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def _inside(files: Files, weights: str, about: str, reader: Reader) -> Problems:
    found = [] if _epoch(files[about], reader) is not None else [f"{about} is cut off or tells no epoch."]
    return problems_of([files[weights]], reader) + found
