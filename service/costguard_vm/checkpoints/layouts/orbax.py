"""Orbax: a folder a step, renamed into place when whole; on Google Cloud Storage a success file says so instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import partial

from costguard_vm.checkpoints.layouts.base import (
    CandidateCheckpoint,
    Files,
    Problems,
    RangeReader,
    Tree,
    missing,
    text_of,
)
from costguard_vm.model.checkpoint import Framework

TEMPORARY = ".orbax-checkpoint-tmp"
_NAME = re.compile(r"[A-Za-z_\-.]*?([0-9]{1,18})")
SUCCESS = "commit_success.txt"
_ABOUT = "_CHECKPOINT_METADATA"
_MOST_ABOUT = 1 << 20
SIGNS = ("_METADATA", "manifest.ocdbt", "_sharding", SUCCESS, _ABOUT)


def find_orbax(tree: Tree) -> Iterable[CandidateCheckpoint]:
    for name, files in tree.folders.items():
        step = _NAME.fullmatch(name.partition(TEMPORARY)[0])
        if step is None or not (TEMPORARY in name or any(name.rpartition("/")[2] in SIGNS for name in files)):
            continue
        lacking = [f"The folder's name still has {TEMPORARY}: it was not finished."] if TEMPORARY in name else []
        check = partial(_inside, files, tree.is_gcs)
        yield CandidateCheckpoint(Framework.ORBAX, name, name, int(step[1]), files, lacking + _missing(files), check)


def _missing(files: Files) -> Problems:
    """Each item that keeps arrays in a database needs the database's manifest."""
    items = {name.partition("/d/")[0] for name in files if "/d/" in name and "ocdbt.process_" not in name}
    problems = [problem for item in sorted(items) for problem in missing(files, f"{item}/manifest.ocdbt")]
    if not any(name not in (SUCCESS, _ABOUT) for name in files):
        problems.append("Nothing has been saved in it.")
    if unfinished := sorted({name.partition("/")[0] for name in files if TEMPORARY in name}):
        problems.append(f"{unfinished[0]} was not finished.")
    return problems


def _inside(files: Files, is_gcs: bool, reader: RangeReader) -> Problems:
    if SUCCESS in files:
        return []
    if _ABOUT in files:
        return [] if _is_committed(files, reader) else [f"{_ABOUT} tells no commit: saving was not finished."]
    return [f"{SUCCESS} is missing, which is written last on Google Cloud Storage."] if is_gcs else []


def _is_committed(files: Files, reader: RangeReader) -> bool:
    try:
        metadata = json.loads(text_of(files[_ABOUT], reader, _MOST_ABOUT))
    except (ValueError, RecursionError):
        return False
    return isinstance(metadata, dict) and bool(metadata.get("commit_timestamp_nsecs"))
