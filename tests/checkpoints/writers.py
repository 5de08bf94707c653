"""Checkpoints as each framework writes them: the same names, formats and order, with a few bytes of weights."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.checkpoints.places import Written, below

from costguard_vm.model.checkpoint import Framework, LookFor


def torch_zip(content: object = None, name: str = "archive") -> bytes:
    """Returns what torch.save writes: a stored ZIP with data.pkl first."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as opened:
        opened.writestr(f"{name}/data.pkl", pickle.dumps(content if content is not None else {}, protocol=2))
        opened.writestr(f"{name}/byteorder", "little")
        opened.writestr(f"{name}/data/0", bytes(64))
        opened.writestr(f"{name}/version", "3\n")
    return made.getvalue()


def safetensors(weights: int = 64) -> bytes:
    tensors = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [weights // 4], "data_offsets": [0, weights]},
    }
    header = json.dumps(tensors).encode()
    return struct.pack("<Q", len(header)) + header + bytes(weights)


def hdf5(size: int = 200, version: int = 2) -> bytes:
    """A superblock that tells the file's end, and nothing that can be read after it."""
    head = b"\x89HDF\r\n\x1a\n"
    if version >= 2:
        head += bytes((version, 8, 8, 0)) + struct.pack("<QQQQ", 0, (1 << 64) - 1, size, 48)
    else:
        head += bytes((version, 0, 0, 0, 0, 8, 8, 0, 4, 0, 16, 0)) + bytes(4) + (bytes(4) if version else b"")
        head += struct.pack("<QQQ", 0, (1 << 64) - 1, size)
    return head + bytes(size - len(head))


@dataclass
class _StorageInfo:
    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None


@dataclass(frozen=True)
class _MetadataIndex:
    fqn: str
    offset: tuple[int, ...] | None = None
    index: int | None = None


@dataclass
class _Metadata:
    state_dict_metadata: dict[str, Any] = field(default_factory=dict)
    storage_data: dict[Any, _StorageInfo] = field(default_factory=dict)


def dcp_metadata(sizes: dict[str, int]) -> bytes:
    """Two tensors in each file, with names that could be taken for something else."""
    storage = {}
    for path, size in sizes.items():
        storage[_MetadataIndex(f"offset.{path}", (0, 0), 0)] = _StorageInfo(path, size // 2, size - size // 2)
        storage[_MetadataIndex(f"length.{path}", (1, 0), 1)] = _StorageInfo(path, 0, size // 2)
    return pickle.dumps(_Metadata({"relative_path": 3, "offset": 10**9}, storage))


def hugging_face(step: int) -> list[Written]:
    index = {
        "metadata": {},
        "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"},
    }
    files = {
        "config.json": b"{}",
        "model-00001-of-00002.safetensors": safetensors(),
        "model-00002-of-00002.safetensors": safetensors(32),
        "model.safetensors.index.json": json.dumps(index).encode(),
        "training_args.bin": torch_zip(),
        "optimizer.pt": torch_zip(),
        "scheduler.pt": torch_zip(),
        "rng_state_0.pth": torch_zip(),
        "rng_state_1.pth": torch_zip(),
        "trainer_state.json": json.dumps({"global_step": step, "log_history": []}).encode(),
    }
    return below(f"checkpoint-{step}", files)


def lightning(step: int) -> list[Written]:
    content = {"epoch": 1, "global_step": step, "pytorch-lightning_version": "2.6.0", "state_dict": {}}
    return [(f"epoch=1-step={step}.ckpt", torch_zip(content, f"epoch=1-step={step}"))]


def torch_dcp(step: int) -> list[Written]:
    sizes = {"__0_0.distcp": 40, "__1_0.distcp": 24}
    return below(
        f"step-{step}", {**{name: bytes(size) for name, size in sizes.items()}, ".metadata": dcp_metadata(sizes)}
    )


def orbax(step: int) -> list[Written]:
    files = {
        "_CHECKPOINT_METADATA": b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": null}',
        "state/d/0a1b": b"arrays",
        "state/ocdbt.process_0/d/0a1b": b"arrays",
        "state/ocdbt.process_0/manifest.ocdbt": b"manifest",
        "state/_METADATA": b"{}",
        "state/manifest.ocdbt": b"manifest",
        "metrics/metrics": b"{}",
        "commit_success.txt": b"Checkpoint commit was successful",
    }
    return below(str(step), files)


def deepspeed(step: int) -> list[Written]:
    tag = f"global_step{step}"
    files = {"mp_rank_00_model_states.pt": torch_zip(), "mp_rank_01_model_states.pt": torch_zip()}
    for data in range(2):
        for model in range(2):
            files[f"bf16_zero_pp_rank_{data}_mp_rank_{model:02d}_optim_states.pt"] = torch_zip()
    return [*below(tag, files), ("latest", tag.encode())]


def megatron(step: int) -> list[Written]:
    ranks = [f"mp_rank_{tensor:02d}_{stage:03d}/model_optim_rng.pt" for tensor in range(2) for stage in range(2)]
    files = {name: torch_zip() for name in ranks}
    return [*below(f"iter_{step:07d}", files), ("latest_checkpointed_iteration.txt", str(step).encode())]


def keras(step: int) -> list[Written]:
    metadata = json.dumps({"epoch": step, "batch": 0}).encode()
    return [("latest.weights.h5", hdf5()), ("training_metadata.json", metadata)]


def tensorflow(step: int) -> list[Written]:
    end = bytes(40) + bytes.fromhex("57fb808b247547db")
    stem = f"ckpt-{step}"
    return [(f"{stem}.data-00000-of-00002", b"a"), (f"{stem}.data-00001-of-00002", b"b"), (f"{stem}.index", end)]


def plain(step: int) -> list[Written]:
    return [(f"weights/ckpt_{step:06d}.pt", torch_zip())]


def marked(step: int) -> list[Written]:
    return below(f"it{step}", {"weights.npy": b"numpy", "optimizer.pkl": b"pickle", "DONE": b"1"})


@dataclass(frozen=True)
class Layout:
    """`hints` of the last files are no proof: without them it is complete all the same when an older one is like it.

    Files that end as in `optional` may lack; those as in `sizeless` are missed, and nothing tells how long they are.
    """

    write: Callable[[int], list[Written]]
    look_for: LookFor = field(default_factory=LookFor)
    hints: int = 0
    optional: tuple[str, ...] = ()
    sizeless: tuple[str, ...] = ()


# That the last rank's random state lacks, nothing tells: Transformers then goes on with a new one.
LAYOUTS: dict[Framework, Layout] = {
    Framework.HUGGING_FACE: Layout(hugging_face, optional=("config.json", "training_args.bin", "rng_state_1.pth")),
    Framework.LIGHTNING: Layout(lightning),
    Framework.TORCH_DCP: Layout(torch_dcp),
    Framework.ORBAX: Layout(
        orbax,
        optional=("_METADATA", "0a1b", "process_0/manifest.ocdbt", "metrics"),
        sizeless=("manifest.ocdbt", "success.txt"),
    ),
    Framework.DEEPSPEED: Layout(deepspeed, hints=1),
    Framework.MEGATRON: Layout(megatron),
    Framework.KERAS: Layout(keras),
    Framework.TENSORFLOW: Layout(tensorflow, sizeless=("-of-00002",)),
    Framework.FILES: Layout(plain, LookFor(pattern="weights/ckpt_{step}.pt")),
    Framework.MARKER: Layout(marked, LookFor(marker="DONE"), optional=(".npy", ".pkl"), sizeless=("DONE",)),
}
