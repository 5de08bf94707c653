"""Where a main thread stands, by the names of its functions. A frame is `name (file)` or `name (file:line)`.

The names are those of PyTorch, TensorFlow, JAX, Hugging Face, Lightning, DeepSpeed and DALI. A stack that none of them
tells apart is Python of the training itself. Waiting for a GPU in a C function, as `.item()` does, shows its caller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .signals import (
    CHECKPOINT,
    COMMUNICATION,
    DEVICE,
    EVALUATION,
    HOST,
    LOADER,
    LOGGING,
    OTHER,
    STORAGE,
    StackSignals,
)

MOST_FRAMES = 6  # of the most frequent functions that are reported

_SAVES = "save_file|save_pretrained|_?save_checkpoint|save_state|save_model|save_weights|_save_to_state_dict"
_BATCHES = r"(?:get|next|load|fetch|read|make)_(?:next_)?(?:train_)?batch(?:es)?|load_data|read_data"
_EVALUATES = (
    r"eval|_?evaluate\w*|eval_\w+|evaluation_loop|validate|_?run_validation|validation\w*|run_eval\w*|test_step"
)
_COLLECTIVES = r"torch/distributed/(?:distributed_c10d|_functional_collectives|c10d_logger)|deepspeed/comm/|^horovod/"

# Place, pattern of the function's own name, pattern of the file. Any frame of the stack counts; the first rule wins.
_RULES = tuple(
    (place, re.compile(f"(?:{name})$"), re.compile(file))
    for place, name, file in (
        (OTHER, ".*", r"<frozen importlib|^importlib/"),  # it still loads its modules
        (CHECKPOINT, "_?save|_legacy_save|async_save", r"torch/(?:serialization|distributed/checkpoint)"),
        (CHECKPOINT, _SAVES, ""),
        (CHECKPOINT, "_?save", ""),  # of the training itself: its fsync and rename are part of it
        (CHECKPOINT, r"save|_?write\w*|wait_until_finished", r"^orbax/|tensorflow/python/(?:checkpoint|saved_model)"),
        (CHECKPOINT, r"save\w*", r"^keras/.*sav"),
        # The training process itself reads and prepares the data.
        (STORAGE, ".*", r"torch/utils/data/_utils/(?:fetch|collate)|numpy/lib/_?npyio|pandas/io|^PIL/"),
        (STORAGE, ".*", r"torchvision/(?:transforms|datasets|io)|^(?:cv2|h5py|pyarrow|soundfile|librosa|zarr)/"),
        (STORAGE, ".*", r"^datasets/(?:arrow_|formatting|features|table)|transformers/tokenization|^tokenizers/"),
        # It waits for those that do.
        (LOADER, "_next_data|_try_get_data|_get_data|__next__|_try_put_index", "torch/utils/data/dataloader"),
        (
            LOADER,
            r"_next_internal|__next__|next|get_next\w*",
            "tensorflow/python/data|tensorflow_datasets|iterator_ops",
        ),
        (LOADER, ".*", r"nvidia/dali|^grain/|^webdataset/|^wds/|^streaming/base|ffcv/loader|^torchdata/"),
        (LOADER, "__next__|__iter__|_fetch_batches", r"accelerate/data_loader"),
        (LOADER, "__next__|__iter__|next", r"lightning\w*/.*(?:fetchers|combined_loader)|torch_xla/.*loader"),
        (STORAGE, _BATCHES, ""),  # of a training without a loader
        (LOGGING, ".*", r"^(?:wandb|mlflow|neptune|comet_ml|clearml|aim|rich|matplotlib)/|tensorboard|^logging/"),
        (LOGGING, "update|refresh|display|print_status|status_printer|fp_write", "^tqdm/"),  # not what it iterates over
        (COMMUNICATION, ".*", _COLLECTIVES),
        (
            COMMUNICATION,
            r"(?:all|reduce|broadcast|barrier|send|recv|batch_isend)\w*",
            r"megatron/|mpi4py|torch/cuda/nccl",
        ),
        (DEVICE, "synchronize|_?block_until_ready|wait_stream|effects_barrier", ""),
        (DEVICE, r"_value|__array__|__float__|tolist|_single_device_array_to_np_array\w*", r"^jax/"),
        (EVALUATION, _EVALUATES, ""),
    )
)
_FRAME = re.compile(r"(.*) \((.*?)(?::\d+)?\)$")
# Functions of these files wait on behalf of their callers, which say more.
_PASSES_ON = re.compile(
    r"^(?:threading|queue|selectors|socket|ssl|contextlib|functools|subprocess)\.py|multiprocessing/|<frozen "
)


def place_of(frames: Sequence[str]) -> str:
    """The place of one stack, the innermost frame first."""
    if not frames:
        return OTHER
    parts = [_split(frame) for frame in frames]
    for place, name, file in _RULES:
        if any(name.match(function) and file.search(path) for function, path in parts):
            return place
    return HOST


def own_frame(frames: Sequence[str]) -> str:
    """The innermost frame that is not the standard library's waiting; without its line."""
    parts = [_split(frame) for frame in frames]
    function, path = next((one for one in parts if not _PASSES_ON.search(one[1])), parts[0] if parts else ("", ""))
    return f"{function} ({path})"


def summed_up(stacks: Mapping[tuple[str, ...], int], with_lock: float | None = None) -> StackSignals:
    """The shares over all looks. `with_lock`: that of the looks in which the thread held the interpreter's lock."""
    looks = sum(stacks.values())
    if not looks:
        return StackSignals(looks=0.0, error="no stack of the main thread could be read")
    places: dict[str, float] = {}
    frames: dict[str, float] = {}
    for stack, count in stacks.items():
        place, frame = place_of(stack), own_frame(stack)
        places[place] = places.get(place, 0.0) + count / looks
        frames[frame] = frames.get(frame, 0.0) + count / looks
    most = sorted(frames.items(), key=lambda one: -one[1])[:MOST_FRAMES]
    return StackSignals(looks=float(looks), places=places, frames=dict(most), holds_gil=with_lock)


def read_raw(text: str, threads: Sequence[str] = ()) -> dict[tuple[str, ...], int]:
    """The main thread's stacks, the innermost frame first, from `py-spy record --format raw --threads`.

    `threads` are its numbers: a program that never imported threading has no names for its threads.
    """
    stacks: dict[tuple[str, ...], int] = {}
    for line in text.splitlines():
        words, _, count = line.rpartition(" ")
        thread, *frames = words.split(";")
        match = re.match(r"thread \((\w+)\)(: MainThread)?", thread)
        if not count.isdecimal() or match is None or not (match.group(2) or match.group(1) in threads):
            continue
        stack = tuple(reversed(frames))
        stacks[stack] = stacks.get(stack, 0) + int(count)
    return stacks


def _split(frame: str) -> tuple[str, str]:
    """The function's own name, without its class, and its file."""
    match = _FRAME.match(frame)
    name, path = match.groups() if match else (frame, "")
    return name.rpartition(".")[2], path
