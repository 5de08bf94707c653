"""Megatron-LM: `iter_N/` with a folder a rank or a torch.distributed checkpoint, and a tracker that is written last."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from costguard_vm.checkpoints.layouts.base import (
    CandidateCheckpoint,
    Files,
    Problems,
    RangeReader,
    Tree,
    gaps,
    listed,
    missing,
    text_of,
)
from costguard_vm.checkpoints.layouts.formats import problems_of
from costguard_vm.checkpoints.layouts.pytorch import DCP_METADATA, is_torch_dcp, torch_dcp_problems
from costguard_vm.model.checkpoint import Framework

TRACKER = "latest_checkpointed_iteration.txt"
_NAME = re.compile(r"iter_([0-9]{1,18})")
_RANK = re.compile(r"mp_rank_([0-9]{2,6})(?:_([0-9]{3,6}))?(?:_[0-9]{3,6})?/(.+)")


def find_megatron(tree: Tree) -> Iterable[CandidateCheckpoint]:
    folders = {name: files for name, files in tree.folders.items() if _NAME.fullmatch(name)}
    if not folders:
        return
    tracked = text_of(tree.files.get(TRACKER), tree.reader)
    by_step = {int(name[len("iter_") :]): files for name, files in folders.items()}
    reached = int(tracked) if re.fullmatch(r"[0-9]{1,18}", tracked) and int(tracked) in by_step else None
    for name, files in folders.items():
        step = int(name[len("iter_") :])
        lacking = _missing(files)
        if reached is not None and reached < step:
            lacking.append(f"{TRACKER} still says {reached}: saving was not finished.")
        elif reached is not None:
            lacking += _fewer(files, [by_step[reached]])
        elif TRACKER in tree.files and len(folders) > 1:
            # Not written in one piece either: cut off, it names nothing that is here.
            lacking += _fewer(files, [held for other, held in folders.items() if other != name])
        else:
            lacking.append(f"{TRACKER} is missing or names nothing here: saving was not finished.")
        yield CandidateCheckpoint(Framework.MEGATRON, name, name, step, files, lacking, partial(_inside, files))


def _fewer(files: Files, others: Iterable[Files]) -> Problems:
    """Ranks that others have: what was begun and never finished stays where it is."""
    held = _ranks(files)
    absent = sorted(set().union(*(_ranks(other) for other in others)) - held)
    return [f"{listed(absent)}: missing, which others have."] if absent else []


def _ranks(files: Files) -> set[str]:
    return {match[0] for name in files if (match := re.match(r"mp_rank_[0-9_]+", name))}


def _missing(files: Files) -> Problems:
    if is_torch_dcp(files):
        return missing(files, DCP_METADATA, "common.pt", "metadata.json")
    ranks: dict[tuple[int, int], set[str]] = {}
    for name in files:
        if match := _RANK.fullmatch(name):
            ranks.setdefault((int(match[1]), int(match[2] or 0)), set()).add(match[3])
    if not ranks:
        return ["No rank has saved anything."]
    every = set().union(*ranks.values())
    found_missing = [f"mp_rank_{rank:02d} is missing." for rank in gaps(rank for rank, _ in ranks)]
    found_missing += [f"Stage {stage:03d} of the pipeline is missing." for stage in gaps(stage for _, stage in ranks)]
    for (rank, stage), held in sorted(ranks.items()):
        if lacking := sorted(every - held):
            found_missing.append(f"Rank {rank}, stage {stage} lacks {listed(lacking)}.")
    stages = {stage for _, stage in ranks}
    absent = [(rank, stage) for rank in {rank for rank, _ in ranks} for stage in stages if (rank, stage) not in ranks]
    found_missing += [f"Rank {rank}, stage {stage} is missing." for rank, stage in sorted(absent)]
    return found_missing[:5]


def _inside(files: Files, reader: RangeReader) -> Problems:
    problems = problems_of([file for name, file in files.items() if name.endswith(".pt")], reader)
    return problems + (torch_dcp_problems(files, reader) if is_torch_dcp(files) else [])
