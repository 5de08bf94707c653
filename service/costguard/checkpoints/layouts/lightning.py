"""Lightning: one `.ckpt` file each, written aside and moved into place; sharded strategies write a folder `*.ckpt`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from costguard.checkpoints.layouts import deepspeed, torch_dcp
from costguard.checkpoints.layouts.base import Candidate, Files, Problems, Reader, Tree, missing, within
from costguard.checkpoints.layouts.formats import problem_of, problems_of
from costguard.checkpoints.layouts.pickles import step_inside
from costguard.model.checkpoint import Framework, StoredFile

# What the Trainer makes by itself when it is given a folder; anything else beside it is not a checkpoint of this run.
_BELOW = re.compile(r"(?:checkpoints/|lightning_logs/version_[0-9]+/checkpoints/)?([^/]+\.ckpt)(?:/(.+))?")
_STEP = re.compile(r"(?:step=|hpc_ckpt_)([0-9]{1,18})")


def find(tree: Tree) -> Iterable[Candidate]:
    files, folders = _sorted(tree.listing.files)
    steps = tree.reader.each(partial(_step, reader=tree.reader), list(files.values()))
    for step, (path, file) in zip(steps, files.items()):
        lacking = missing({path: file}, path)
        yield Candidate(Framework.LIGHTNING, path, path, step, {path: file}, lacking, partial(_inside_file, file))
    for path, inner in folders.items():
        yield Candidate(
            Framework.LIGHTNING, path, path, _step_of(path), inner, _missing(inner), partial(_inside_folder, inner)
        )


def _step(file: StoredFile, reader: Reader) -> int | None:
    """`last.ckpt` does not say in its name."""
    named = _step_of(file.path)
    return step_inside(file, reader) if named is None else named


def _step_of(path: str) -> int | None:
    found = _STEP.search(path.rpartition("/")[2])
    return int(found[1]) if found else None


def _sorted(listed: Mapping[str, StoredFile]) -> tuple[dict[str, StoredFile], dict[str, dict[str, StoredFile]]]:
    files: dict[str, StoredFile] = {}
    folders: dict[str, dict[str, StoredFile]] = {}
    for path, file in listed.items():
        if found := _BELOW.fullmatch(path):
            if found[2] is None:
                files[path] = file
            else:
                folders.setdefault(path[: -len(found[2]) - 1], {})[found[2]] = file
    return files, folders


def _inside_file(file: StoredFile, reader: Reader) -> Problems:
    return [found for found in [problem_of(file, reader)] if found]


def _deepspeed(files: Files) -> Iterator[Files]:
    if inner := within(files, "checkpoint"):
        yield inner


def _missing(files: Files) -> Problems:
    for inner in _deepspeed(files):
        return [*missing(files, "latest"), *deepspeed.missing_ranks(inner)]
    return missing(files, torch_dcp.METADATA, "meta.pt")


def _inside_folder(files: Files, reader: Reader) -> Problems:
    for inner in _deepspeed(files):
        return problems_of(list(inner.values()), reader)
    return [*torch_dcp.problems(files, reader), *problems_of([files["meta.pt"]], reader)]
