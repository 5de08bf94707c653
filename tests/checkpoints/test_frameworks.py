"""Each framework's own ways: what it may leave out, what it may not, and what is said of it."""

from __future__ import annotations

import json

import pytest
from tests.checkpoints import writers
from tests.checkpoints.places import Memory, Written, below, reasons
from tests.checkpoints.writers import dcp_metadata, hdf5, safetensors, torch_zip

from costguard_vm.model.checkpoint import Framework, LookFor

DCP = {"__0_0.distcp": bytes(40), ".metadata": dcp_metadata({"__0_0.distcp": 40})}
SHARED = {
    "scheduler.pt": torch_zip(),
    "rng_state.pth": torch_zip(),
    "trainer_state.json": b'{"global_step": 7}',
}


def resumed(written: list[Written], where: str = "gs://runs/one", look_for: LookFor | None = None) -> str | None:
    look = Memory(written, where).look(look_for)
    return look.resume.name if look.resume else None


@pytest.mark.parametrize(
    "files",
    [
        {"model.safetensors": safetensors(), "optimizer.pt": torch_zip(), **SHARED},
        {"pytorch_model.bin": torch_zip(), "optimizer.bin": torch_zip(), **SHARED},
        {"adapter_model.safetensors": safetensors(), "optimizer.pt": torch_zip(), **SHARED},
        {**dict(below("pytorch_model_fsdp_0", DCP)), **dict(below("optimizer_0", DCP)), **SHARED},
        {
            "global_step7/mp_rank_00_model_states.pt": torch_zip(),
            "global_step7/zero_pp_rank_0_mp_rank_00_optim_states.pt": torch_zip(),
            "latest": b"global_step7",
            "rng_state_0.pth": torch_zip(),
            "trainer_state.json": SHARED["trainer_state.json"],
        },
    ],
    ids=["whole model", "bin", "adapter", "FSDP", "DeepSpeed"],
)
def test_the_trainer_saves_in_several_ways(files: dict[str, bytes]) -> None:
    """A whole model, shards, an adapter, FSDP's folders or DeepSpeed's: each has its own way to be complete."""
    assert resumed(below("checkpoint-7", files)) == "checkpoint-7"
    for lost in files:
        # Without ZeRO the optimizer lies in the model's states, so that names alone do not miss its files.
        if lost != "latest" and "zero_pp_rank" not in lost:
            assert resumed(below("checkpoint-7", {k: v for k, v in files.items() if k != lost})) is None, lost


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"checkpoint-is-incomplete.txt": b""}, "checkpoint-is-incomplete.txt is still there"),
        ({"trainer_state.json": b'{"global_step": 6}'}, "tells step 6, and the folder's name 7"),
        ({"trainer_state.json": b'{"global_step"'}, "cut off or no JSON"),
        ({"optimizer.pt": None}, "go on with a new optimizer, silently"),
        ({"optimizer.pt": b""}, "optimizer.pt is empty"),
        ({"optimizer.pt": torch_zip()[:-1]}, "optimizer.pt has no end record"),
        ({"model.safetensors": safetensors()[:-1]}, "model.safetensors is 168 bytes long, and its header tells 169"),
        ({"rng_state.pth": None, "rng_state_0.pth": torch_zip(), "rng_state_2.pth": torch_zip()}, "rng_state_1.pth"),
        ({"model.safetensors": None}, "The model is missing"),
    ],
)
def test_why_a_trainers_checkpoint_does_not_count(change: dict[str, bytes | None], why: str) -> None:
    """The reason names the file and what is wrong with it."""
    files = {"model.safetensors": safetensors(), "optimizer.pt": torch_zip(), **SHARED, **change}
    look = Memory(below("checkpoint-7", {name: body for name, body in files.items() if body is not None})).look()
    assert look.resume is None
    assert why in reasons(look, "checkpoint-7")


def test_an_index_names_shards_that_must_all_be_there() -> None:
    """A lost shard, an index cut off, and an index that names none are reported."""
    written = dict(writers.hugging_face(7))
    index = "checkpoint-7/model.safetensors.index.json"
    lost = {path: body for path, body in written.items() if "00002-of" not in path}
    for files, why in (
        (lost, "model-00002-of-00002.safetensors: missing, of 2 shards"),
        ({**written, index: written[index][:9]}, "cut off or names no shards"),
        ({**written, index: b'{"weight_map": {}}'}, "cut off or names no shards"),
    ):
        look = Memory(list(files.items())).look()
        assert look.resume is None
        assert why in reasons(look, "checkpoint-7")


def test_lightnings_last_tells_its_step_inside() -> None:
    """`last.ckpt` is ordered by the step that it holds; where Lightning puts files by itself they are found."""
    last = torch_zip({"epoch": 3, "global_step": 120, "state_dict": {"global_step": 5}})
    assert resumed([("last.ckpt", last), *writers.lightning(100)]) == "last.ckpt"
    assert resumed([("last.ckpt", last), *writers.lightning(130)]) == "epoch=1-step=130.ckpt"
    below_version = [(f"lightning_logs/version_2/checkpoints/{path}", body) for path, body in writers.lightning(8)]
    assert resumed(below_version) == "lightning_logs/version_2/checkpoints/epoch=1-step=8.ckpt"
    assert resumed([("hpc_ckpt_9.ckpt", torch_zip())]) == "hpc_ckpt_9.ckpt"


def test_lightnings_sharded_folders() -> None:
    """A folder of a sharded strategy needs its metadata; one of DeepSpeed its ranks and `latest`."""
    sharded = {**DCP, "meta.pt": torch_zip()}
    assert resumed(below("epoch=0-step=9.ckpt", sharded)) == "epoch=0-step=9.ckpt"
    ranks = {"checkpoint/mp_rank_00_model_states.pt": torch_zip(), "latest": b"checkpoint"}
    assert resumed(below("epoch=0-step=9.ckpt", ranks)) == "epoch=0-step=9.ckpt"
    for files in (sharded, ranks):
        for lost in files:
            assert resumed(below("epoch=0-step=9.ckpt", {k: v for k, v in files.items() if k != lost})) is None, lost


def test_deepspeeds_latest_is_a_hint() -> None:
    """A tag that `latest` does not name counts when it holds what the named one does, and else not."""
    old, new = writers.deepspeed(10), writers.deepspeed(20)
    assert resumed([*old, *new[:-1]]) == "global_step20"
    assert resumed([*old, *new[:-1], ("latest", b"")]) == "global_step20"
    assert resumed([*old[:-1], *new[:3], ("latest", b"glob")]) == "global_step10"
    assert resumed([*old[:2], *new]) == "global_step20"
    look = Memory([*old[:3], *new]).look(examine=5)
    assert "not all files are there that others hold" in reasons(look, "global_step10")
    assert resumed(new[:-1]) is None
    assert resumed([*new, ("latest", b"\xff\xfe")]) is None


def test_deepspeeds_gaps_are_named() -> None:
    """A rank between others that lacks is named; so is one that other parts of the model have."""
    files = dict(writers.deepspeed(20))
    files.pop("global_step20/bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt")
    look = Memory(list(files.items())).look()
    assert "bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt is missing" in reasons(look, "global_step20")
    for rank in ("00", "01"):
        lost = f"mp_rank_{rank}_model_states.pt"
        look = Memory([writer for writer in writers.deepspeed(20) if not writer[0].endswith(lost)]).look()
        assert f"{lost} is missing" in reasons(look, "global_step20")


def test_megatrons_tracker_decides() -> None:
    """A checkpoint that the tracker has not reached does not count; cut off, it names nothing, and what is like the
    others counts.
    """
    old, new = writers.megatron(100), writers.megatron(200)
    tracker = "latest_checkpointed_iteration.txt"
    assert resumed([*old, *new[:-1]]) == "iter_0000100"
    assert resumed([*old[:-1], *new[:-1], (tracker, b"2")]) == "iter_0000200"
    assert resumed([*old[:-1], *new[:3], (tracker, b"")]) == "iter_0000100"
    look = Memory([*old[:3], *new]).look(examine=5)
    assert "Rank 1, stage 1 is missing" in reasons(look, "iter_0000100")
    assert resumed([*new[:-1], (tracker, b"release")]) is None


def test_megatrons_distributed_format() -> None:
    """The metadata and the common part belong to it."""
    files = {**DCP, "common.pt": torch_zip(), "metadata.json": b"{}"}
    tracker = ("latest_checkpointed_iteration.txt", b"7")
    assert resumed([*below("iter_0000007", files), tracker]) == "iter_0000007"
    for lost in files:
        assert resumed([*below("iter_0000007", {k: v for k, v in files.items() if k != lost}), tracker]) is None, lost


def test_dcp_metadata_tells_names_and_sizes() -> None:
    """A file that it names and is not there, or is shorter, is reported; hostile or broken metadata names nothing."""
    files = dict(writers.torch_dcp(9))
    look = Memory([(path, body[:-1] if "__1_0" in path else body) for path, body in files.items()]).look()
    assert "__1_0.distcp is 23 bytes long, and should be 24" in reasons(look, "step-9")
    for body in (b"cos\nsystem\n(S'rm'\ntR.", b"\x80\x04.", b"\x80\x04\x95junk.", b"."):
        look = Memory([*files.items(), ("step-9/.metadata", body)]).look()
        assert "cut off or names no files" in reasons(look, "step-9")


def test_orbax_is_finished_in_two_ways() -> None:
    """The checkpoint is finished on Google Cloud Storage by a success file or a commit time, elsewhere by the
    rename.
    """
    written = [writer for writer in writers.orbax(5) if "success" not in writer[0]]
    assert resumed(written) is None
    metadata = ("5/_CHECKPOINT_METADATA", json.dumps({"commit_timestamp_nsecs": 17}).encode())
    assert resumed([*written, metadata]) == "5"
    old_style = [file for file in written if "_CHECKPOINT" not in file[0]]
    assert resumed(old_style) is None
    assert resumed(old_style, "/mnt/runs") == "5"
    look = Memory(
        [(path.replace("5/", "5.orbax-checkpoint-tmp-17/", 1), body) for path, body in written], "/mnt"
    ).look()
    assert look.checkpoints[0].step == 5
    assert ".orbax-checkpoint-tmp: it was not finished" in look.checkpoints[0].reasons[0]


def test_what_keras_itself_loads_decides() -> None:
    """New weights with the old epoch, or with none, are loaded; cut off, either ends the training.

    The rule is Keras' own `on_train_begin`, which `make trainers` runs on what killed trainings leave.
    """
    weights, metadata = writers.keras(4)
    assert resumed([metadata, weights]) == "latest.weights.h5"
    assert resumed([weights]) == "latest.weights.h5"
    assert resumed([weights, (metadata[0], metadata[1][:5])]) is None
    assert resumed([(weights[0], hdf5(300)[:250]), metadata]) is None
    assert resumed([metadata], look_for=LookFor(Framework.KERAS)) is None


def test_keras_goes_back_only_from_weights_that_it_cannot_open() -> None:
    """Keras does not go back from metadata that was cut off, nor where the newest weights are whole or not there at
    all.
    """
    weights, metadata = writers.keras(4)
    kept = [(f"{path}.bkp", body) for path, body in writers.keras(3)]
    torn = (weights[0], weights[1][:60])
    assert resumed([*kept, torn, metadata]) == "latest.weights.h5.bkp"
    assert resumed([kept[0], torn, metadata]) == "latest.weights.h5.bkp"
    assert resumed([*kept, weights, (metadata[0], b"")]) is None
    assert resumed([*kept, metadata]) is None
    assert resumed([kept[0], (kept[1][0], b"{"), torn, metadata]) is None
    look = Memory([*kept, weights, metadata]).look(examine=2)
    assert look.resume is not None
    assert (look.resume.name, look.resume.step) == ("latest.weights.h5", 4)
    assert "goes back to this one only from one that is not" in reasons(look, "latest.weights.h5.bkp")
    assert Memory([metadata]).look().checkpoints == ()  # others write such a file too
    assert len(Memory([metadata]).look(LookFor(Framework.KERAS)).checkpoints) == 1


def test_tensorflows_parts_that_were_not_merged() -> None:
    """A temporary folder is a checkpoint that was never finished."""
    look = Memory([("ckpt-3_temp/part-00000-of-00001.data-00000-of-00001", b"x"), *writers.tensorflow(2)]).look(
        examine=9
    )
    assert "never" not in reasons(look, "ckpt-2")
    assert "still lie in ckpt-3_temp" in reasons(look, "ckpt-3")
    assert look.resume is not None
    assert look.resume.resume_from == "gs://runs/one/ckpt-2"


@pytest.mark.parametrize(
    ("path", "pattern", "step"),
    [
        ("ckpt_000120.pt", "ckpt_{step}.pt", 120),
        ("run-a/step3/model-3.pt", "*/step{step}/model-{step}.pt", 3),
        ("run-a/step3/model-4.pt", "*/step{step}/model-{step}.pt", None),
        ("a/b/ckpt_1.pt", "ckpt_{step}.pt", None),
        ("model12000.pt", "model*{step}.pt", 12000),
        ("ckpt_1.pt.tmp", "ckpt_{step}.pt", None),
        ("ckpt_1Xpt", "ckpt_{step}.pt", None),
        ("ckpt_1234567890123456789.pt", "ckpt_{step}.pt", None),
    ],
)
def test_patterns(path: str, pattern: str, step: int | None) -> None:
    """The whole path matches or nothing does, a star stops at a slash, and the number is the whole number."""
    look = Memory([(path, torch_zip())]).look(LookFor(pattern=pattern))
    assert [one.step for one in look.checkpoints] == ([] if step is None else [step])


def test_markers_within_and_beside() -> None:
    """A marker may lie in the folder, or next to the checkpoints with the step in its name."""
    within = LookFor(marker="_SUCCESS", pattern="epoch-{step}/")
    written = [("epoch-1/w.npy", b"w"), ("epoch-1/_SUCCESS", b""), ("epoch-2/w.npy", b"w"), ("other3/_SUCCESS", b"")]
    assert resumed(written, look_for=within) == "epoch-1"
    outside = LookFor(Framework.MARKER, "w{step}.bin", "done-{step}")
    assert resumed([("w1.bin", torch_zip()), ("w2.bin", torch_zip()), ("done-1", b"")], look_for=outside) == "w1.bin"
    only = Memory([("it1/DONE", b"")]).look(LookFor(marker="DONE"))
    assert "Nothing but the marker" in reasons(only, "it1")
