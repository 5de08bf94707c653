"""torch.distributed.checkpoint: `__R_N.distcp` files, and `.metadata`, which comes last and names them all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from costguard.checkpoints.layouts.base import Candidate, Files, Problems, Reader, Tree, last_number, listed, missing
from costguard.checkpoints.layouts.pickles import shards_of
from costguard.model.checkpoint import Framework

METADATA = ".metadata"
_SHARD = re.compile(r"__[0-9]+_[0-9]+\.distcp")


def find(tree: Tree) -> Iterable[Candidate]:
    for name, files in tree.folders.items():
        if is_ours(files):
            lacking = missing(files, METADATA)
            yield Candidate(
                Framework.TORCH_DCP, name, name, last_number(name), files, lacking, partial(problems, files)
            )


def is_ours(files: Files) -> bool:
    return METADATA in files or any(_SHARD.fullmatch(name) for name in files)


def problems(files: Files, reader: Reader) -> Problems:
    """What is wrong with one such folder, by its `.metadata`; also used where a framework keeps one within its own."""
    if lacking := missing(files, METADATA):
        return lacking
    needed = shards_of(files[METADATA], reader)
    if not needed:
        return [f"{METADATA} is cut off or names no files."]
    absent = sorted(name for name in needed if name not in files)
    found = [f"{listed(absent)}: missing, of {len(needed)} files."] if absent else []
    for name, size in sorted(needed.items()):
        if name in files and files[name].size < size:
            found.append(f"{name} is {files[name].size} bytes long, and should be {size}.")
    return found
