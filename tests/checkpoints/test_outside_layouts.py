"""Checkpoints as public threads list them, which the layouts once refused, or took for whole while they were torn."""

from __future__ import annotations

import json
import pickle

import pytest
from tests.checkpoints.places import Memory, Written, below, reasons
from tests.checkpoints.writers import dcp_metadata, safetensors, torch_zip

from costguard_vm.model.checkpoint import Framework

STATES = {"optimizer.pt": torch_zip(), "scheduler.pt": torch_zip(), "rng_state.pth": torch_zip()}
TRAINERS = {**STATES, "trainer_state.json": json.dumps({"global_step": 500}).encode()}
RANDOM = {"random_states_0.pkl": pickle.dumps({"step": 500})}
ACCELERATES = {"optimizer.bin": torch_zip(), "scheduler.bin": torch_zip(), "scaler.pt": torch_zip(), **RANDOM}
OF_DEEPSPEED = {
    "pytorch_model/mp_rank_00_model_states.pt": torch_zip({"dp_world_size": 1}),
    "pytorch_model/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": torch_zip(),
    "latest": b"pytorch_model",
    "scheduler.bin": torch_zip(),
    **RANDOM,
}
SHARDS = {f"model-{number:05d}-of-00002.safetensors": safetensors() for number in (1, 2)}
INDEX = {"model.safetensors.index.json": json.dumps({"weight_map": dict(zip("ab", SHARDS, strict=True))}).encode()}
NEMO = "model_name--val_loss=0.00-step=500-consumed_samples=5120.0"
NEMOS = {
    "weights/__0_0.distcp": bytes(40),
    "weights/common.pt": torch_zip(),
    "weights/metadata.json": b"{}",
    "context/model.yaml": b"name: model",
    "weights/.metadata": dcp_metadata({"__0_0.distcp": 40}),
}

WHOLE: dict[str, tuple[Framework, list[Written]]] = {
    "unslothai/unsloth pull 6796: Sentence Transformers keeps its weights a level down": (
        Framework.HUGGING_FACE,
        below("checkpoint-500", {"modules.json": b"[]", "0_Transformer/model.safetensors": safetensors(), **TRAINERS}),
    ),
    "huggingface/diffusers issue 4733, a LoRA": (
        Framework.HUGGING_FACE,
        below("checkpoint-500", {"pytorch_lora_weights.safetensors": safetensors(), **ACCELERATES}),
    ),
    "diffusers, a whole UNet": (
        Framework.HUGGING_FACE,
        below("checkpoint-500", {"unet/diffusion_pytorch_model.safetensors": safetensors(), **ACCELERATES}),
    ),
    "Accelerate's own examples": (Framework.HUGGING_FACE, below("step_500", {**SHARDS, **INDEX, **ACCELERATES})),
    "Accelerate with DeepSpeed": (Framework.HUGGING_FACE, below("checkpoint-500", OF_DEEPSPEED)),
    "NVIDIA-NeMo/Speech, NeMo 2": (Framework.TORCH_DCP, below(NEMO, NEMOS)),
}


@pytest.mark.parametrize("source", WHOLE)
def test_whole_outside_checkpoint_is_resumed_from(source: str) -> None:
    """It is found by its names, of its step, and without a remark."""
    framework, written = WHOLE[source]
    look = Memory(written).look()
    assert look.resume is not None, look
    assert (look.resume.framework, look.resume.step, look.notes) == (framework, 500, ())


@pytest.mark.parametrize("source", WHOLE)
def test_outside_checkpoint_without_its_last_file_is_incomplete(source: str) -> None:
    """The last file tells the end; cut off after any other, it does not count."""
    _, written = WHOLE[source]
    for whole in range(1, len(written)):
        assert Memory(written[:whole]).look().resume is None, written[whole - 1][0]


@pytest.mark.parametrize("lost", ["optimizer.bin", "pytorch_lora_weights.safetensors"])
def test_accelerate_save_without_a_part_is_incomplete(lost: str) -> None:
    """A copy that went wrong, with the last file there."""
    files = {"pytorch_lora_weights.safetensors": safetensors(), **ACCELERATES}
    del files[lost]
    assert Memory(below("checkpoint-500", files)).look().resume is None


def test_torn_object_that_a_program_registered_with_accelerate_is_noticed() -> None:
    """Accelerate writes these after the random states, and `load_state` fails where one is torn."""
    states = pickle.dumps({"step": list(range(500))})
    files = {**SHARDS, **INDEX, **ACCELERATES, "custom_checkpoint_0.pkl": states}
    assert Memory(below("step_500", files)).look().resume is not None
    look = Memory(below("step_500", {**files, "custom_checkpoint_0.pkl": states[:20]})).look()
    assert look.resume is None
    assert "custom_checkpoint_0.pkl" in reasons(look, "step_500")


def test_missing_shard_and_missing_rank_are_named() -> None:
    """Names alone show it, also without an index."""
    shards = {name: body for name, body in SHARDS.items() if "00001-of" in name}
    files = {**shards, **ACCELERATES, "random_states_2.pkl": b"\x80\x04N."}
    why = reasons(Memory(below("checkpoint-500", files)).look(), "checkpoint-500")
    assert "model-00002-of-00002.safetensors: missing" in why
    assert "random_states_1.pkl is missing" in why


@pytest.mark.parametrize("name", [NEMO, f"{NEMO}.ckpt"])
def test_checkpoint_marked_unfinished_by_nemo_is_incomplete(name: str) -> None:
    """A mark lies next to a checkpoint while it is written or removed (NVIDIA-NeMo/Speech pull 7952)."""
    lightning = torch_zip({"epoch": 1, "global_step": 500, "state_dict": {}})
    written = below(name, NEMOS) if name == NEMO else [(name, lightning)]
    assert Memory(written).look().resume is not None
    look = Memory([*written, (f"{NEMO}-unfinished", b"")]).look()
    assert look.resume is None
    assert "-unfinished is there" in reasons(look, name)


def test_files_deeper_in_a_folder_of_a_step_get_a_pattern_and_a_marker() -> None:
    """verl writes a folder for each part of a step, and `data.pt` last: github.com/verl-project/verl/issues/1535."""
    parts = {
        f"actor/{kind}_world_size_2_rank_{rank}.pt": torch_zip()
        for kind in ("model", "optim", "extra_state")
        for rank in (0, 1)
    }
    written = [one for step in (50, 100) for one in below(f"global_step_{step}", {**parts, "data.pt": torch_zip()})]
    look = Memory([*written, ("latest_checkpointed_iteration.txt", b"100")]).look()
    assert "--pattern 'global_step_{step}/' --marker 'data.pt'" in look.unrecognised
