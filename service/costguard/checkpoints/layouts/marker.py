"""Folders, or files of a pattern, that are complete when a marker file says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from costguard.checkpoints.layouts.base import Candidate, Files, Tree, last_number
from costguard.checkpoints.layouts.formats import problems_of
from costguard.checkpoints.layouts.pattern import STEP, StepPattern
from costguard.model.checkpoint import Framework

_TELLING = (".safetensors", ".pt", ".pth", ".ckpt", ".h5", ".npz", ".keras")


def find(tree: Tree) -> Iterable[Candidate]:
    is_beside = STEP in tree.look_for.marker
    wanted = StepPattern(tree.look_for.marker)
    marks = {wanted.step_of(path) for path in tree.listing.files} - {None} if is_beside else set()
    for name, step, files in _found(tree):
        is_marked = step in marks if is_beside else tree.look_for.marker in files
        lacking = [] if is_marked else [f"{tree.look_for.marker.replace(STEP, str(step))} is missing."]
        if not any(inner != tree.look_for.marker for inner in files):
            lacking.append("Nothing but the marker is there.")
        telling = [file for inner, file in files.items() if inner.endswith(_TELLING)]
        yield Candidate(Framework.MARKER, name, name, step, files, lacking, partial(problems_of, telling))


def _found(tree: Tree) -> Iterator[tuple[str, int, Files]]:
    wanted = StepPattern(tree.look_for.pattern.rstrip("/")) if tree.look_for.pattern else None
    for name, files in tree.folders.items():
        step = last_number(name) if wanted is None else wanted.step_of(name)
        if step is not None:
            yield name, step, files
    if wanted is not None and STEP in tree.look_for.marker:
        for name, file in tree.files.items():
            step = wanted.step_of(name)
            if step is not None:
                yield name, step, {name: file}
