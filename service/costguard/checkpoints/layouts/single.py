"""One file that a location names itself, such as `checkpoint.pt`: each save is written over the one before."""

from __future__ import annotations

from functools import partial
from typing import Iterable

from costguard.checkpoints.layouts.base import Candidate, Problems, Reader, Tree, missing
from costguard.checkpoints.layouts.formats import problem_of
from costguard.checkpoints.layouts.pickles import step_inside
from costguard.model.checkpoint import Framework, StoredFile

_OF_TORCH = (".bin", ".ckpt", ".pt", ".pth", ".tar")


def find(tree: Tree) -> Iterable[Candidate]:
    for name, file in tree.files.items():
        step = step_inside(file, tree.reader) if name.endswith(_OF_TORCH) else None
        yield Candidate(
            Framework.FILES, name, "", step, {name: file}, missing({name: file}, name), partial(_inside, file)
        )


def _inside(file: StoredFile, reader: Reader) -> Problems:
    return [found for found in [problem_of(file, reader)] if found]
