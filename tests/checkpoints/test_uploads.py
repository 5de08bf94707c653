"""The agent keeps notes next to checkpoints in a bucket, and uploads a checkpoint's files in an order."""

from __future__ import annotations

import pytest
from tests.checkpoints import writers
from tests.checkpoints.places import Memory, Written, below, reasons
from tests.checkpoints.writers import LAYOUTS

from costguard_vm.checkpoints.judge import candidates
from costguard_vm.checkpoints.uploads import in_order, note_of, parts_of
from costguard_vm.model.checkpoint import Framework, LookFor

WHERE = "s3://lab/run-7"


def order_of(written: list[Written], look_for: LookFor | None = None) -> list[list[str]]:
    memory = Memory(written, WHERE)
    (one,) = candidates(memory.listing, look_for or LookFor(), memory)
    return in_order(one, marker=look_for.marker if look_for else "")


def test_our_own_files_are_no_checkpoints() -> None:
    """Notes, slots and all else of ours are kept apart from what others see at the location."""
    ours = [(note_of("10"), b""), (note_of("."), b""), (".costguard/slots/2/10/a", b"a"), (".costguard/attempt", b"3")]
    parts = parts_of(Memory([("10/a", b"a"), *ours], WHERE).listing)
    assert list(parts.listing.files) == ["10/a"]
    assert {prefix: list(held.files) for prefix, held in parts.slots.items()} == {".costguard/slots/2/": ["10/a"]}
    assert parts.uploading == {"10", "."}
    assert not parts_of(Memory([("10/a", b"a")], WHERE).listing).slots


def test_no_note_has_a_name_that_a_path_cannot_have() -> None:
    """The location itself is called `.`, and that is no name of a file or an object."""
    assert note_of("checkpoint-7") == ".costguard/uploading/checkpoint-7"
    assert "." not in note_of(".").split("/")


@pytest.mark.parametrize("framework", LAYOUTS)
def test_a_checkpoint_with_a_note_does_not_count(framework: Framework) -> None:
    """A whole checkpoint does not count either; the reason says so. A note of another one changes nothing."""
    layout = LAYOUTS[framework]
    name = Memory(layout.write(7), WHERE).look(layout.look_for).checkpoints[0].name
    noted = Memory([*layout.write(7), (note_of(name), b"")], WHERE).look(layout.look_for)
    assert noted.resume is None
    assert "Its upload was not finished" in reasons(noted, name)
    assert Memory([*layout.write(7), (note_of("other"), b"")], WHERE).look(layout.look_for).resume is not None


def test_a_part_that_looks_whole_does_not_count_either() -> None:
    """While the location itself is uploaded, no folder of it counts; a slot, which is another checkpoint, does."""
    itself = [(path.partition("/")[2], body) for path, body in writers.torch_dcp(7)]
    part = writers.torch_dcp(8)
    note = (note_of("."), b"")
    assert Memory([*itself, note], WHERE).look().resume is None
    assert Memory([*part, note], WHERE).look().resume is None
    slot = Memory([*below(".costguard/slots/1", dict(itself)), note], WHERE).look()
    assert slot.resume is not None
    assert slot.resume.resume_from == f"{WHERE}/.costguard/slots/1"
    assert slot.resume.step == Memory(itself, WHERE).look().checkpoints[0].step


@pytest.mark.parametrize(
    ("framework", "last"),
    [
        (Framework.HUGGING_FACE, ["checkpoint-7/trainer_state.json"]),
        (Framework.TORCH_DCP, ["step-7/.metadata"]),
        (Framework.DEEPSPEED, ["global_step7/mp_rank_00_model_states.pt"]),
        (Framework.KERAS, ["latest.weights.h5"]),
        (Framework.TENSORFLOW, ["ckpt-7.index"]),
        (Framework.MARKER, ["it7/DONE"]),
        (Framework.ORBAX, ["7/commit_success.txt"]),
        (Framework.LIGHTNING, ["epoch=1-step=7.ckpt"]),
        (Framework.FILES, ["weights/ckpt_000007.pt"]),
    ],
)
def test_the_file_that_tells_goes_last(framework: Framework, last: list[str]) -> None:
    """The file is last by its layout, whenever it was written: a copied folder has one time for all its files."""
    layout = LAYOUTS[framework]
    groups = order_of(layout.write(7)[::-1], layout.look_for)
    assert groups[-1] == last
    placed = [path for group in groups for path in group]
    pointers = ("latest", "latest_checkpointed_iteration.txt")
    assert sorted(placed) == sorted(path for path, _ in layout.write(7) if path not in pointers)


def test_orbaxs_arrays_go_before_what_its_folders_are_known_by() -> None:
    """Off Google Cloud Storage nothing else tells that an array lacks."""
    arrays, signs, *last = order_of(writers.orbax(7))
    assert arrays == ["7/metrics/metrics", "7/state/d/0a1b", "7/state/ocdbt.process_0/d/0a1b"]
    assert signs == ["7/_CHECKPOINT_METADATA", "7/state/_METADATA", "7/state/ocdbt.process_0/manifest.ocdbt"]
    assert last == [["7/state/manifest.ocdbt"], ["7/commit_success.txt"]]


def test_a_marker_next_to_a_checkpoint_goes_last() -> None:
    """It is no file of the checkpoint's folder."""
    written = [*below("it7", {"a": b"a", "b": b"b"}), ("it7.done", b"")]
    memory = Memory(written, WHERE)
    (one,) = candidates(memory.listing, LookFor(pattern="it{step}", marker="it{step}.done"), memory)
    assert in_order(one, ["it7.done"]) == [["it7/a", "it7/b"], ["it7.done"]]
