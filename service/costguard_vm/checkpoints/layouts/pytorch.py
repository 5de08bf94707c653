"""Lightning: one `.ckpt` file each, written aside and moved into place; sharded strategies write a folder `*.ckpt`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from costguard_vm.checkpoints.layouts.base import (
    CandidateCheckpoint,
    Files,
    Lacking,
    Problems,
    RangeReader,
    Tree,
    inside,
    last_number,
    listed,
    missing,
    within,
)
from costguard_vm.checkpoints.layouts.deepspeed import missing_ranks, problems_inside
from costguard_vm.checkpoints.layouts.formats import problem_of, problems_of
from costguard_vm.checkpoints.layouts.pickles import shards_of, step_inside
from costguard_vm.checkpoints.layouts.ranks import rank_of
from costguard_vm.model.checkpoint import Framework, StoredFile

DCP_METADATA = ".metadata"
_SHARD = re.compile(r"__[0-9]+_[0-9]+\.distcp")

# Of Megatron Core, whose loading takes a folder without the last one for no checkpoint (dist_checkpointing/core.py,
# `check_is_distributed_checkpoint`).
_OF_MEGATRON = (DCP_METADATA, "common.pt", "metadata.json")


def find_torch_dcp(tree: Tree) -> Iterable[CandidateCheckpoint]:
    for name, files in tree.folders.items():
        if is_torch_dcp(files):
            lacking = missing(files, DCP_METADATA)
            yield CandidateCheckpoint(
                Framework.TORCH_DCP, name, name, last_number(name), files, lacking, partial(torch_dcp_problems, files)
            )
        elif is_torch_dcp(weights := within(files, "weights")):
            # NeMo 2, which keeps the model's configuration in `context/` next to it
            lacking = [*_unfinished(tree, name), *inside("weights", missing(weights, *_OF_MEGATRON))]
            step = _step_of(name)
            check = partial(_nemo_problems, weights)
            yield CandidateCheckpoint(
                Framework.TORCH_DCP, name, name, last_number(name) if step is None else step, files, lacking, check
            )
        elif any(_OF_FSDP.match(inner) for inner in files):
            check = partial(_accelerate_problems, files)
            lacking = missing(files, *(f"{item}/{DCP_METADATA}" for item in _items(files)), _RANDOM.format(0))
            yield CandidateCheckpoint(Framework.TORCH_DCP, name, name, last_number(name), files, lacking, check)


# Accelerate's `save_state` with FSDP and sharded state dicts (accelerate/accelerator.py): a DCP a model, then one an
# optimizer, then each rank's random states, which it writes last. What it loads without is a random state alone.
_OF_FSDP = re.compile(r"((?:pytorch_model_fsdp|optimizer)_[0-9]{1,3})/")
_RANDOM = "random_states_{}.pkl"


def _items(files: Files) -> list[str]:
    items = {match[1] for name in files if (match := _OF_FSDP.match(name))}
    return sorted(items | {"pytorch_model_fsdp_0", "optimizer_0"})


def _accelerate_problems(files: Files, reader: RangeReader) -> Problems:
    """Each item is whole, and so are the random states of all ranks that an item names."""
    problems: Problems = []
    ranks = {0}
    for item in _items(files):
        inner = within(files, item)
        problems += inside(item, torch_dcp_problems(inner, reader))
        named = shards_of(inner[DCP_METADATA], reader) or {}
        ranks |= {rank for name in named if (rank := rank_of(name)) is not None}
    problems += missing(files, *(_RANDOM.format(rank) for rank in sorted(ranks)))
    whole = [file for name, file in files.items() if "/" not in name and name.endswith((".bin", ".pkl"))]
    return problems + problems_of(whole, reader)


def _nemo_problems(weights: Files, reader: RangeReader) -> Problems:
    problems = [*torch_dcp_problems(weights, reader), *problems_of([weights["common.pt"]], reader)]
    return inside("weights", problems)


def _unfinished(tree: Tree, path: str) -> Problems:
    """NeMo's mark next to what it writes or removes, until that is done (NVIDIA-NeMo/Speech, pull request 7952)."""
    mark = f"{path[:-5] if path.endswith('.ckpt') else path}-unfinished"
    return [f"{mark} is there: it is being written or removed."] if mark in tree.listing.files else []


def is_torch_dcp(files: Files) -> bool:
    return DCP_METADATA in files or any(_SHARD.fullmatch(name) for name in files)


def torch_dcp_problems(files: Files, reader: RangeReader) -> Problems:
    """Lists the problems of one such folder, by its `.metadata`; also used where a framework keeps one within
    its own.
    """
    if lacking := missing(files, DCP_METADATA):
        return lacking
    needed = shards_of(files[DCP_METADATA], reader)
    if not needed:
        return [f"{DCP_METADATA} is cut off or names no files."]
    absent = sorted(name for name in needed if name not in files)
    problems: Problems = []
    if absent:
        problems.append(Lacking.of(f"{listed(absent)}: missing, of {len(needed)} files.", *absent))
    for name, size in sorted(needed.items()):
        if name in files and files[name].size < size:
            problems.append(Lacking.of(f"{name} is {files[name].size} bytes long, and should be {size}.", name))
    return problems


# The Trainer's own folders; other files next to them are no checkpoints of this run.
_BELOW = re.compile(r"(?:checkpoints/|lightning_logs/version_[0-9]+/checkpoints/)?([^/]+\.ckpt)(?:/(.+))?")
_STEP = re.compile(r"(?:step=|hpc_ckpt_)([0-9]{1,18})")


def find_lightning(tree: Tree) -> Iterable[CandidateCheckpoint]:
    files, folders = _sorted(tree.listing.files)
    steps = tree.reader.each(partial(_step, reader=tree.reader), list(files.values()))
    for step, (path, file) in zip(steps, files.items()):
        lacking = [*missing({path: file}, path), *_unfinished(tree, path)]
        yield CandidateCheckpoint(
            Framework.LIGHTNING, path, path, step, {path: file}, lacking, partial(_inside_file, file)
        )
    for path, inner in folders.items():
        yield CandidateCheckpoint(
            Framework.LIGHTNING,
            path,
            path,
            _step_of(path),
            inner,
            _missing_of_folder(inner),
            partial(_inside_folder, inner),
        )


def _step(file: StoredFile, reader: RangeReader) -> int | None:
    """`last.ckpt` does not say in its name."""
    named = _step_of(file.path)
    return step_inside(file, reader) if named is None else named


def _step_of(path: str) -> int | None:
    match = _STEP.search(path.rpartition("/")[2])
    return int(match[1]) if match else None


def _sorted(listed: Mapping[str, StoredFile]) -> tuple[dict[str, StoredFile], dict[str, dict[str, StoredFile]]]:
    files: dict[str, StoredFile] = {}
    folders: dict[str, dict[str, StoredFile]] = {}
    for path, file in listed.items():
        if match := _BELOW.fullmatch(path):
            if match[2] is None:
                files[path] = file
            else:
                folders.setdefault(path[: -len(match[2]) - 1], {})[match[2]] = file
    return files, folders


def _inside_file(file: StoredFile, reader: RangeReader) -> Problems:
    return [problem for problem in [problem_of(file, reader)] if problem]


def _deepspeed(files: Files) -> Iterator[Files]:
    if inner := within(files, "checkpoint"):
        yield inner


def _missing_of_folder(files: Files) -> Problems:
    for inner in _deepspeed(files):
        return [*missing(files, "latest"), *missing_ranks(inner)]
    return missing(files, DCP_METADATA, "meta.pt")


def _inside_folder(files: Files, reader: RangeReader) -> Problems:
    for inner in _deepspeed(files):
        return problems_inside(inner, reader)
    return [*torch_dcp_problems(files, reader), *problems_of([files["meta.pt"]], reader)]
