"""Hugging Face: the Trainer's `checkpoint-N/`, with `trainer_state.json` written last; what Accelerate saves alone.

The Trainer itself takes the highest N, torn or not, and silently goes on without an optimizer's or scheduler's state.
Programs with a loop of their own, such as the scripts of diffusers, call Accelerate's `save_state`: models first, by
names of their own, then optimizers, schedulers, samplers, each rank's random states (accelerate/checkpointing.py), and
last `custom_checkpoint_N.pkl` of what the program registered, as many as it alone knows.
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
    last_number,
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
_RANDOM = re.compile(r"random_states_([0-9]{1,7})\.pkl")
_OF_ACCELERATE = re.compile(
    r"(?:optimizer|scheduler|sampler)(?:_[0-9]+)?\.bin|scaler\.pt|custom_checkpoint_[0-9]+\.pkl"
)
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_OF_SHARDS = re.compile(r"(.+)-[0-9]{5}-of-([0-9]{5})(\.safetensors|\.bin)")
_ITS_DEEPSPEED = "pytorch_model"


def find_hugging_face(tree: Tree) -> Iterable[CandidateCheckpoint]:
    for name, files in tree.folders.items():
        matched = _NAME.fullmatch(name)
        step = last_number(name)
        if step is not None and _is_of_accelerate(files):
            check = partial(_inside_of_accelerate, files)
            lacking = _missing_of_accelerate(files)
            yield CandidateCheckpoint(Framework.HUGGING_FACE, name, name, step, files, lacking, check)
        elif matched and (tree.look_for.framework or _is_ours(files)):
            step = int(matched[1])
            check = partial(_inside, files, step)
            yield CandidateCheckpoint(Framework.HUGGING_FACE, name, name, step, files, _missing(files), check)


def _is_ours(files: Files) -> bool:
    """Others name their folders so too; a folder with nothing but shards of theirs is not ours."""
    names = {_STATE, _SENTINEL, "scheduler.pt", "training_args.bin", "config.json", *_MODELS, *_INDEXES, *_OPTIMIZERS}
    return any(name in names or name.startswith("rng_state") or _SHARD.fullmatch(name) for name in files)


def _is_of_accelerate(files: Files) -> bool:
    """Says whether Accelerate saved it without the Trainer; its sharded FSDP is a layout of PyTorch's."""
    is_trainers = any(name == _STATE or name.startswith(("rng_state", "training_args")) for name in files)
    is_sharded = any(re.match(r"(?:pytorch_model_fsdp|optimizer)_[0-9]{1,3}/", name) for name in files)
    has_part = any(_RANDOM.fullmatch(name) or name in ("optimizer.bin", "scheduler.bin") for name in files)
    return has_part and not is_trainers and not is_sharded


def _missing_of_accelerate(files: Files) -> Problems:
    ranks = [int(match[1]) for name in files if (match := _RANDOM.fullmatch(name))]
    lacking = missing(files, *(f"random_states_{rank}.pkl" for rank in [*gaps(ranks)[:3], *([] if ranks else [0])]))
    sharded = within(files, _ITS_DEEPSPEED)
    if any(name.endswith("_states.pt") for name in sharded):
        return [*lacking, *inside(_ITS_DEEPSPEED, deepspeed.missing_ranks(sharded))]
    if not _models_of_accelerate(files):
        lacking.append("The model is missing: there is no file of weights.")
    return lacking + missing(files, "optimizer.bin") + _shards_between(files)


def _shards_between(files: Files) -> Problems:
    """Shards that lack by the names of others, `model-00001-of-00003.safetensors`: their index comes after them."""
    sets = {match.group(1, 2, 3) for name in files if (match := _OF_SHARDS.fullmatch(name))}
    named = (f"{stem}-{number:05d}-of-{count}{end}" for stem, count, end in sets for number in range(1, int(count) + 1))
    absent = sorted(name for name in named if name not in files)
    return [f"{listed(absent)}: missing, of shards."] if absent else []


def _models_of_accelerate(files: Files) -> list[str]:
    return [name for name in files if name.endswith(_WEIGHTS) and not _OF_ACCELERATE.fullmatch(name)]


def _inside_of_accelerate(files: Files, reader: RangeReader) -> Problems:
    problems: Problems = []
    sharded = within(files, _ITS_DEEPSPEED)
    if any(name.endswith("_states.pt") for name in sharded):
        problems += inside(_ITS_DEEPSPEED, deepspeed.problems_inside(sharded, reader))
    for index in (name for name in files if name.endswith((".safetensors.index.json", ".bin.index.json"))):
        folder = index.rpartition("/")[0]
        held = within(files, folder) if folder else files
        problems += _shards(held, index.rpartition("/")[2], reader)[1]
    whole = [file for name, file in files.items() if name.endswith((*_WEIGHTS, ".pkl"))]
    return problems + problems_of(whole, reader)


def _missing(files: Files) -> Problems:
    lacking = []
    if _SENTINEL in files:
        lacking.append(f"{_SENTINEL} is still there: saving was not finished.")
    lacking += missing(files, _STATE)
    has_deepspeed = any(True for _ in _deepspeed_folders(files))
    if not (has_deepspeed or _models(files) or any(name in files for name in _INDEXES) or within(files, _FSDP_MODEL)):
        lacking.append("The model is missing: there is neither model.safetensors nor an index of shards.")
    if not (has_deepspeed or any(name in files for name in _OPTIMIZERS) or within(files, _FSDP_OPTIMIZER)):
        lacking.append("optimizer.pt is missing: training would go on with a new optimizer, silently.")
    if not has_deepspeed:
        lacking += missing(files, "scheduler.pt")
    return lacking + _ranks(files)


def _models(files: Files) -> list[str]:
    """The files of models, also a level down, where Sentence Transformers has modules and PEFT adapters."""
    return [name for name in files if name.rpartition("/")[2] in _MODELS and name.count("/") < 2]


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
    names = [*_models(files), *(name for name in (*_OPTIMIZERS, "scheduler.pt", "scaler.pt") if name in files)]
    whole = [files[name] for name in names]
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
