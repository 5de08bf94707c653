"""Plain files with the step in their name. Where the format tells its own end, that is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from costguard.checkpoints.layouts.base import Candidate, Problems, Reader, Tree, missing
from costguard.checkpoints.layouts.formats import problem_of
from costguard.checkpoints.layouts.pattern import StepPattern
from costguard.model.checkpoint import Framework, StoredFile


def find(tree: Tree) -> Iterable[Candidate]:
    wanted = StepPattern(tree.look_for.pattern)
    for path, file in tree.listing.files.items():
        step = wanted.step_of(path)
        if step is not None:
            held = {path: file}
            lacking = missing(held, path)
            yield Candidate(Framework.FILES, path, path, step, held, lacking, partial(_inside, file))


def _inside(file: StoredFile, reader: Reader) -> Problems:
    return [found for found in [problem_of(file, reader)] if found]
