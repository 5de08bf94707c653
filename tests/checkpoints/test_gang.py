"""A checkpoint of a gang is complete when every rank's part is: recorded gangs, and what can befall their parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.checkpoints.gangs import NAMES, emptied, recorded, without
from tests.checkpoints.places import Memory, below
from tests.checkpoints.writers import deepspeed, torch_dcp, torch_zip

from costguard_vm.checkpoints.gang import NodePart, judge_gang
from costguard_vm.checkpoints.layouts.ranks import rank_of
from costguard_vm.model.checkpoint import Listing, LookFor
from costguard_vm.model.gang import GangLook, GangShape, GangState

ON_NODES = tuple(name for name in NAMES if not recorded(name).shape.is_shared)
TWO = GangShape(2, 1)


def _look(*written: list[tuple[str, bytes]], shape: GangShape = TWO) -> GangLook:
    memories = [Memory(part, "/runs/gang") for part in written]
    parts = [NodePart(node, memory.listing, memory) for node, memory in enumerate(memories)]
    return judge_gang(parts, shape, LookFor())


@pytest.mark.parametrize("name", NAMES)
def test_the_newest_step_that_its_framework_loads_is_chosen(name: str) -> None:
    """The judge chooses it of what a killed gang left, and calls none complete that does not load."""
    run = recorded(name)
    look = judge_gang(run.parts, run.shape, LookFor())
    assert look.resume is not None
    assert look.resume.checkpoint.name == run.newest
    assert look.is_settled
    torn = {step for step, loads in run.saves if loads is False}
    assert not [one for one in look.checkpoints if one.checkpoint.name in torn and one.state is GangState.COMPLETE]


@pytest.mark.parametrize("name", ON_NODES)
def test_each_ranks_part_is_needed(name: str) -> None:
    """A step without the file of any one rank is incomplete, and that rank and its node are named."""
    run = recorded(name)
    for part in run.parts:
        for path in part.listing.files:
            rank = rank_of(path)
            if rank is None or not path.startswith(f"{run.newest}/"):
                continue
            left = [without(one, path) for one in run.parts]
            (judged,) = (
                one for one in judge_gang(left, run.shape, LookFor()).checkpoints if one.checkpoint.name == run.newest
            )
            assert judged.state is GangState.INCOMPLETE, path
            assert (rank, part.node) in {(one.rank, one.node) for one in judged.missing}, path
            assert f"rank {rank} (node {part.node})" in " ".join(judged.reasons)


@pytest.mark.parametrize("name", ON_NODES)
def test_a_node_that_could_not_be_looked_at_is_unknown_and_one_without_a_disk_is_not(name: str) -> None:
    """A part that only a silent node can hold is not missing, and nothing older is settled on."""
    run = recorded(name)
    seen = judge_gang(run.parts[:1], run.shape, LookFor())
    assert seen.resume is None
    assert not seen.is_settled
    (newest,) = (one for one in seen.checkpoints if one.checkpoint.name == run.newest)
    assert newest.state is GangState.UNKNOWN
    assert "Not looked at: node 1." in newest.reasons
    gone = judge_gang([run.parts[0], emptied(run.parts[1])], run.shape, LookFor())
    assert gone.resume is None
    assert gone.is_settled
    assert {one.state for one in gone.checkpoints} == {GangState.INCOMPLETE}


def test_what_one_node_holds_alone_is_complete_without_the_others() -> None:
    """All parts of a step, downloaded to each node to resume from, outlive the loss of one of them."""
    look = _look(torch_dcp(9), [])
    assert look.resume is not None
    assert look.resume.checkpoint.name == "step-9"
    assert look.is_settled


def test_a_step_that_some_nodes_lack_is_not_complete() -> None:
    """The newest step of which every part is there counts, however many nodes have gone on."""
    both = dict([*torch_dcp(9), *torch_dcp(12)])
    first = [(path, body) for path, body in both.items() if "__1_0" not in path]
    second = [(path, body) for path, body in both.items() if path == "step-9/__1_0.distcp"]
    look = _look(first, second)
    assert [(one.checkpoint.name, one.state) for one in look.checkpoints] == [
        ("step-12", GangState.INCOMPLETE),
        ("step-9", GangState.COMPLETE),
    ]
    assert [(one.rank, one.node, one.path) for one in look.checkpoints[0].missing] == [(1, 1, "__1_0.distcp")]


def test_of_several_copies_that_of_the_ranks_own_node_counts() -> None:
    """A torn copy that an earlier save left on another node neither hides the part nor stands in for it."""
    files = dict(torch_dcp(9))
    shard = "step-9/__1_0.distcp"
    first = [*((path, body) for path, body in files.items() if path != shard), (shard, files[shard][:3])]
    assert _look(first, [(shard, files[shard])]).resume is not None
    first[-1] = (shard, files[shard])
    look = _look(first, [(shard, files[shard][:3])])
    assert look.resume is None
    assert look.checkpoints[0].missing[0].node == 1


def test_what_is_of_no_rank_alone_is_the_lowest_nodes() -> None:
    """DeepSpeed on disks of each node's own writes the model's states on each: that of rank 0 counts, torn or whole."""
    tag = "global_step7"
    states = torch_zip({"module": {}, "dp_world_size": 2, "mp_world_size": 1})
    model, note = "mp_rank_00_model_states.pt", ("latest", tag.encode())
    first = {model: states, "zero_pp_rank_0_mp_rank_00_optim_states.pt": torch_zip()}
    second = {model: states, "zero_pp_rank_1_mp_rank_00_optim_states.pt": torch_zip()}
    whole = _look([*below(tag, first), note], below(tag, {**second, model: states[:9]}))
    assert whole.resume is not None
    assert whole.holders[f"{tag}/{model}"] == 0
    torn = _look([*below(tag, {**first, model: states[:9]}), note], below(tag, second))
    assert torn.checkpoints[0].state is GangState.INCOMPLETE
    assert torn.is_settled


def test_copies_that_differ_without_an_owner_are_unknown() -> None:
    """Where nobody says which ranks a node has, a guess could mix two saves."""
    files = dict(torch_dcp(9))
    shard = "step-9/__1_0.distcp"
    look = _look(list(files.items()), [(shard, files[shard][:3])], shape=GangShape(2))
    assert look.checkpoints[0].state is GangState.UNKNOWN
    assert f"{shard} differs between the nodes 0 and 1" in look.checkpoints[0].reasons[0]
    assert not look.is_settled


def test_a_folder_that_could_not_be_listed_leaves_the_step_unknown() -> None:
    """The part that seems to be missing may lie in it."""
    files = [(path, body) for path, body in torch_dcp(9) if "__1_0" not in path]
    memory = Memory(files, "/runs/gang")
    part = NodePart(0, replace(memory.listing, unread=("step-9/more",)), memory)
    look = judge_gang([part], GangShape(2, 1, is_shared=True), LookFor())
    assert look.checkpoints[0].state is GangState.UNKNOWN
    assert not look.is_settled


def test_a_part_that_changed_since_the_look_before_is_not_complete() -> None:
    """This holds of each node's part."""
    files = torch_dcp(9)
    first = Memory([file for file in files if "__1_0" not in file[0]], "/runs/gang")
    second = Memory([file for file in files if "__1_0" in file[0]], "/runs/gang")
    parts = [NodePart(0, first.listing, first), NodePart(1, second.listing, second)]
    settled = {0: first.listing, 1: second.listing}
    assert judge_gang(parts, TWO, LookFor(), settled).resume is not None
    changed = {0: first.listing, 1: Listing("/runs/gang", {})}
    look = judge_gang(parts, TWO, LookFor(), changed)
    assert look.resume is None
    assert "appeared since the previous listing" in look.checkpoints[0].reasons[0]


def test_deepspeeds_data_ranks_are_counted_by_the_models_states() -> None:
    """`latest` names a tag that rank 0 finished alone; the states that it wrote tell how many others there are.

    The order is that of deepspeed/runtime/engine.py, whose real saves `make trainers` kills.
    """
    tag = "global_step7"
    states = torch_zip({"module": {}, "dp_world_size": 2, "mp_world_size": 1})
    first = [
        *below(tag, {"mp_rank_00_model_states.pt": states, "zero_pp_rank_0_mp_rank_00_optim_states.pt": torch_zip()}),
        ("latest", tag.encode()),
    ]
    second = below(tag, {"zero_pp_rank_1_mp_rank_00_optim_states.pt": torch_zip()})
    assert _look(first, second).resume is not None
    look = _look(first, [])
    assert look.resume is None
    assert [(one.rank, one.node) for one in look.checkpoints[0].missing] == [(1, 1)]
    assert _look(deepspeed(5), []).resume is not None  # a model in parts, whose states do not tell


def test_accelerates_states_with_fsdp() -> None:
    """Model, optimizer, and the random states of each rank that they name, which are written last."""
    inner = {name.partition("/")[2]: body for name, body in torch_dcp(1)}
    files = {f"{item}/{name}": body for item in ("pytorch_model_fsdp_0", "optimizer_0") for name, body in inner.items()}
    files.update({f"random_states_{rank}.pkl": torch_zip() for rank in (0, 1)})
    files["scheduler.bin"] = torch_zip()
    shape = GangShape(2, 1, is_shared=True)
    assert _look(below("checkpoint_4", files), shape=shape).resume is not None
    for lost in files:
        left = below("checkpoint_4", {name: body for name, body in files.items() if name != lost})
        assert (_look(left, shape=shape).resume is not None) == (lost == "scheduler.bin"), lost
    short = below("checkpoint_4", {**files, "random_states_1.pkl": torch_zip()[:-9]})
    assert _look(short, shape=shape).resume is None


def test_what_a_node_found_in_its_own_files_counts() -> None:
    """Nobody reads them a second time, from the bucket; a torn one is torn wherever it is judged."""
    memories = [Memory(part, "/runs/gang") for part in deepspeed_of_two()]
    for problem in ("", "zero_pp_rank_1_mp_rank_00_optim_states.pt is cut off."):
        parts = [NodePart(node, memory.listing, memory) for node, memory in enumerate(memories)]
        problems = dict.fromkeys(memories[1].listing.files, problem)
        look = judge_gang([parts[0], replace(parts[1], problems=problems)], TWO, LookFor())
        assert (look.resume is None) == bool(problem)
        assert not memories[1].asked


def deepspeed_of_two() -> list[list[tuple[str, bytes]]]:
    """A tag of two data ranks, each on a node of its own."""
    tag = "global_step7"
    states = torch_zip({"module": {}, "dp_world_size": 2, "mp_world_size": 1})
    first = {"mp_rank_00_model_states.pt": states, "zero_pp_rank_0_mp_rank_00_optim_states.pt": torch_zip()}
    second = {"zero_pp_rank_1_mp_rank_00_optim_states.pt": torch_zip()}
    return [[*below(tag, first), ("latest", tag.encode())], below(tag, second)]
