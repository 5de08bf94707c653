"""Checkpoints whose names a user gives: files of a pattern, a single file, folders or files with a marker.

Names and patterns come from users, and a regular expression of theirs could take hours over one name. Here each name
takes time in proportion to its length, the number of its runs of digits, and the length of the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from costguard_vm.checkpoints.layouts.base import (
    CandidateCheckpoint,
    Files,
    Tree,
    last_number,
    missing,
)
from costguard_vm.checkpoints.layouts.formats import problems_of
from costguard_vm.checkpoints.layouts.pickles import step_inside
from costguard_vm.model.checkpoint import Framework, StoredFile

STEP = "{step}"
_DIGITS = re.compile(r"[0-9]+")
_LONGEST_STEP = 18
_OF_TORCH = (".bin", ".ckpt", ".pt", ".pth", ".tar")
_CHECKED = (".safetensors", ".pt", ".pth", ".ckpt", ".h5", ".npz", ".keras")  # formats that show a torn file


class StepPattern:
    """A whole path with `{step}` in it. `*` stands for anything but a slash.

    The step is a whole number in the name: no digit stands before or after it. Where the name holds several that fit,
    it is the last. Where `{step}` stands more than once, it is the same number each time.
    """

    def __init__(self, pattern: str) -> None:
        first, _, self._rest = pattern.partition(STEP)
        *self._folders, last = first.split("/")
        self._before = last.split("*")
        self._slashes = pattern.count("/")

    def step_of(self, path: str) -> int | None:
        """Returns the step of a path; None where the path is not of this pattern."""
        names = path.split("/")
        at = len(self._folders)
        if len(names) != self._slashes + 1 or not _all_fit(self._folders, names[:at]):
            return None
        name, below = names[at], names[at + 1 :]
        for digits in reversed(list(_DIGITS.finditer(name))):
            step = digits.group()
            if len(step) <= _LONGEST_STEP and _fits(self._before, name[: digits.start()]):
                after, *folders = self._rest.replace(STEP, step).split("/")
                if _fits(after.split("*"), name[digits.end() :]) and _all_fit(folders, below):
                    return int(step)
        return None


def _all_fit(patterns: list[str], names: list[str]) -> bool:
    return all(_fits(pattern.split("*"), name) for pattern, name in zip(patterns, names))


def _fits(pieces: list[str], name: str) -> bool:
    """Says whether a name is these pieces with anything in between: each is looked for where the one before ended."""
    first, *others = pieces
    if not others:
        return name == first
    *middle, last = others
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in middle:
        place = name.find(piece, at, end)
        if place < 0:
            return False
        at = place + len(piece)
    return True


def find_files(tree: Tree) -> Iterable[CandidateCheckpoint]:
    """Files with the step in their names. Where the format shows where it ends, that is checked."""
    pattern = StepPattern(tree.look_for.pattern)
    for path, file in tree.listing.files.items():
        step = pattern.step_of(path)
        if step is not None:
            yield _file(path, path, step, file)


def find_single(tree: Tree) -> Iterable[CandidateCheckpoint]:
    """A file that the location names itself, such as `checkpoint.pt`: each save overwrites the one before."""
    for name, file in tree.files.items():
        step = step_inside(file, tree.reader) if name.endswith(_OF_TORCH) else None
        yield _file(name, "", step, file)


def _file(name: str, resume_path: str, step: int | None, file: StoredFile) -> CandidateCheckpoint:
    files = {name: file}
    check = partial(problems_of, [file])
    return CandidateCheckpoint(Framework.FILES, name, resume_path, step, files, missing(files, name), check)


def find_marker(tree: Tree) -> Iterable[CandidateCheckpoint]:
    """Folders, or files of a pattern, that a marker file declares complete: in the folder, or next to it by step."""
    marker = tree.look_for.marker
    is_outside = STEP in marker
    pattern = StepPattern(marker)
    marked = {pattern.step_of(path) for path in tree.listing.files} - {None} if is_outside else set()
    for name, step, files in _marked_by_name(tree):
        is_marked = step in marked if is_outside else marker in files
        lacking = [] if is_marked else [f"{marker.replace(STEP, str(step))} is missing."]
        if not any(inner != marker for inner in files):
            lacking.append("Nothing but the marker is there.")
        checked = [file for inner, file in files.items() if inner.endswith(_CHECKED)]
        yield CandidateCheckpoint(Framework.MARKER, name, name, step, files, lacking, partial(problems_of, checked))


def _marked_by_name(tree: Tree) -> Iterator[tuple[str, int, Files]]:
    pattern = StepPattern(tree.look_for.pattern.rstrip("/")) if tree.look_for.pattern else None
    for name, files in tree.folders.items():
        step = last_number(name) if pattern is None else pattern.step_of(name)
        if step is not None:
            yield name, step, files
    if pattern is not None and STEP in tree.look_for.marker:
        for name, file in tree.files.items():
            step = pattern.step_of(name)
            if step is not None:
                yield name, step, {name: file}
