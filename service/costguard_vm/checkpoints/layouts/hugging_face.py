"""Hugging Face Trainer: `checkpoint-N/`, with `trainer_state.json` written last.

The Trainer itself takes the highest N, torn or not, and silently goes on without an optimizer's or scheduler's state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial

from costguard_vm.checkpoints.layouts import deepspeed
from costguard_vm.checkpoints.layouts.base import (
    CandidateCheckpoint,
    Files,
    Problems,
    RangeReader,
    Tree,
    gaps,
    inside,
    listed,
    missing,
    within,
)
from costguard_vm.checkpoints.layouts.formats import problems_of
from costguard_vm.checkpoints.layouts.pytorch import torch_dcp_problems
from costguard_vm.model.checkpoint import Framework, StoredFile

_NAME = re.compile(r"checkpoint-([0-9]{1,18})")
_SENTINEL = "checkpoint-is-incomplete.txt"
_STATE = "trainer_state.json"
_MODELS = (
    "model.safetensors",
    "pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
    "pytorch_model_fsdp.bin",
)
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_OPTIMIZERS = ("optimizer.pt", "optimizer.bin")
_SHARD = re.compile(r"(?:model|pytorch_model)-[0-9]{5}-of-[0-9]{5}\.(?:safetensors|bin)")
_FSDP_MODEL, _FSDP_OPTIMIZER = "pytorch_model_fsdp_0", "optimizer_0"
_MOST_JSON = 64 << 20


def find_hugging_face(tree: Tree) -> Iterable[CandidateCheckpoint]:
    for name, files in tree.folders.items():
        matched = _NAME.fullmatch(name)
        if matched and (tree.look_for.framework or _is_ours(files)):
            step = int(matched[1])
            check = partial(_inside, files, step)
            yield CandidateCheckpoint(Framework.HUGGING_FACE, name, name, step, files, _missing(files), check)


def _is_ours(files: Files) -> bool:
    """Others name their folders so too; a folder with nothing but shards of theirs is not ours."""
    names = {_STATE, _SENTINEL, "scheduler.pt", "training_args.bin", "config.json", *_MODELS, *_INDEXES, *_OPTIMIZERS}
    return any(name in names or name.startswith("rng_state") or _SHARD.fullmatch(name) for name in files)


def _missing(files: Files) -> Problems:
    lacking = []
    if _SENTINEL in files:
        lacking.append(f"{_SENTINEL} is still there: saving was not finished.")
    lacking += missing(files, _STATE)
    has_deepspeed = any(True for _ in _deepspeed_folders(files))
    if not (has_deepspeed or any(name in files for name in (*_MODELS, *_INDEXES)) or within(files, _FSDP_MODEL)):
        lacking.append("The model is missing: there is neither model.safetensors nor an index of shards.")
    if not (has_deepspeed or any(name in files for name in _OPTIMIZERS) or within(files, _FSDP_OPTIMIZER)):
        lacking.append("optimizer.pt is missing: training would go on with a new optimizer, silently.")
    if not has_deepspeed:
        lacking += missing(files, "scheduler.pt")
    return lacking + _ranks(files)


def _ranks(files: Files) -> Problems:
    """Checks the files of ranks: a single process writes rng_state.pth, several one file each."""
    if "rng_state.pth" in files:
        return missing(files, "rng_state.pth")
    ranks = [int(match[1]) for name in files if (match := re.fullmatch(r"rng_state_([0-9]{1,6})\.pth", name))]
    if not ranks:
        return ["rng_state.pth is missing."]
    return missing({}, *(f"rng_state_{rank}.pth" for rank in gaps(ranks)[:3]))


def _deepspeed_folders(files: Files) -> Iterator[str]:
    return iter({name.partition("/")[0] for name in files if re.match(r"global_step[0-9]+/", name)})


def _inside(files: Files, step: int, reader: RangeReader) -> Problems:
    problems = _state(files[_STATE], step, reader)
    whole = [files[name] for name in (*_MODELS, *_OPTIMIZERS, "scheduler.pt", "scaler.pt") if name in files]
    whole += [file for name, file in files.items() if re.fullmatch(r"rng_state(_[0-9]+)?\.pth", name)]
    for index in _INDEXES:
        if index in files:
            shards, wrong = _shards(files, index, reader)
            whole += shards
            problems += wrong
    problems += problems_of(whole, reader)
    for folder in (_FSDP_MODEL, _FSDP_OPTIMIZER):
        if inner := within(files, folder):
            problems += inside(folder, torch_dcp_problems(inner, reader))
    for folder in _deepspeed_folders(files):
        inner = within(files, folder)
        problems += inside(folder, [*deepspeed.missing_ranks(inner), *deepspeed.problems_inside(inner, reader)])
    return problems


def _state(file: StoredFile, step: int, reader: RangeReader) -> Problems:
    state = _json(file, reader)
    if not isinstance(state, dict):
        return [f"{_STATE} is cut off or no JSON."]
    saved = state.get("global_step")
    return [] if saved == step else [f"{_STATE} tells step {str(saved)[:20]}, and the folder's name {step}."]


def _shards(files: Files, index: str, reader: RangeReader) -> tuple[list[StoredFile], Problems]:
    content = _json(files[index], reader)
    where = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(where, dict) or not where:
        return [], [f"{index} is cut off or names no shards."]
    names = sorted({str(name) for name in where.values()})
    lacking = [name for name in names if name not in files]
    wrong = [f"{listed(lacking)}: missing, of {len(names)} shards."] if lacking else []
    return [files[name] for name in names if name in files], wrong


def _json(file: StoredFile, reader: RangeReader) -> object:
    if not 0 < file.size <= _MOST_JSON:
        return None
    try:
        content: object = json.loads(reader.read(file, 0, file.size))
    except (ValueError, RecursionError):
        return None
    return content
