"""Parts of checkpoints that several VMs hold are one checkpoint once all are there; the files are of real trainers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.gang_parts import PartsGang, recorded_layout
from tests.agent.shared_bucket import Save
from tests.checkpoints.gangs import folder_of
from tests.checkpoints.writers import hugging_face, torch_zip


def _newest(gang: PartsGang) -> int | None:
    return next((one.step for one in gang.look()), None)


def _torch_save(step: int, nodes: int) -> list[dict[str, bytes]]:
    """Returns what the first process writes alone."""
    return [dict(hugging_face(step)), *({} for _ in range(nodes - 1))]


@pytest.mark.parametrize("nodes", [2, 4])
def test_what_the_first_node_writes_alone_is_whole_once_the_others_say_that_they_have_none(
    tmp_path: Path, nodes: int
) -> None:
    """A checkpoint of rank 0 alone is complete by its files; whether the others hold more of it, only they know."""
    gang = PartsGang(tmp_path, nodes, lambda step: _torch_save(step, nodes))
    gang.ready()
    gang.begin()
    gang.run(2)
    gang.save(10)
    for _ in range(8):
        gang.nodes[0].travel.look(False)
    assert _newest(gang) is None
    gang.run()
    assert _newest(gang) == 10
    assert gang.seen_by_others == {path for path, _ in hugging_face(10)}


def test_a_silent_node_that_never_wrote_anything_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """It was lost after the save; what it said of the one before shows that it holds no part of any."""
    gang = PartsGang(tmp_path, 2, lambda step: _torch_save(step, 2))
    gang.ready()
    gang.begin()
    gang.save(10)
    gang.run()
    gang.save(20)
    for _ in gang.end([0]):
        pass
    assert _newest(gang) == 20


def test_a_silent_node_that_has_written_holds_up_what_cannot_be_whole_without_it(tmp_path: Path) -> None:
    """The silence of a node that wrote parts before does not mean that it has none; it is named once, at the end."""
    states = {f"rng_state_{rank}.pth": torch_zip() for rank in (0, 1)}

    def layout(step: int) -> list[dict[str, bytes]]:
        files = {path: body for path, body in hugging_face(step) if "rng_state" not in path}
        return [{**files, f"checkpoint-{step}/rng_state_0.pth": states["rng_state_0.pth"]},
                {f"checkpoint-{step}/rng_state_1.pth": states["rng_state_1.pth"]}]  # fmt: skip

    gang = PartsGang(tmp_path, 2, layout)
    gang.ready()
    gang.begin()
    gang.save(10)
    gang.run()
    assert _newest(gang) == 10
    gang.save(20, [0])
    for _ in gang.end([0]):
        pass
    assert _newest(gang) == 10
    (error,) = (event["error"] for event in gang.events[0] if event["kind"] == "not_uploaded")
    assert error == "checkpoint-20 is not whole over all VMs of the job; not finished: node 1"
    gang.lose(1)
    gang.ready()
    assert _newest(gang) == 10


def test_of_whole_copies_on_each_node_one_is_uploaded(tmp_path: Path) -> None:
    """Scripts that save on each node hold the same everywhere; the first node's copy is the job's."""
    gang = PartsGang(tmp_path, 2, lambda step: [dict(hugging_face(step)), dict(hugging_face(step))])
    gang.ready()
    gang.begin()
    gang.save(10)
    uploaded: set[str] = set()
    for _ in gang.looks():
        uploaded |= {path for path in gang.bucket.files if "/files/1/" in path}
    assert _newest(gang) == 10
    assert not uploaded


@pytest.mark.parametrize("late", [0, 1])
def test_parts_of_two_saves_under_one_name_are_never_put_together(tmp_path: Path, late: int) -> None:
    """The other node writes its files again many looks after the first of them."""
    gang = PartsGang(tmp_path, 2, recorded_layout("dcp-nodes", 2))
    gang.ready()
    gang.begin()
    gang.save(10)
    gang.run()
    for again in (1, 2):
        gang.save(10, [1 - late], again)
        gang.run()
        assert gang.saved_at("step-10") == Save(1, 10)
        gang.save(10, [late], again)
        gang.run()
        assert Save(1, 10, again) in gang.saves_there("step-10")
    for node in (1 - late, late):  # before the end, the other node is lost
        gang.save(10, [1 - late], 3)
        for _ in gang.end([node]):
            pass
    assert Save(1, 10, 3) not in gang.saves_there("step-10")


def test_a_save_under_the_same_name_at_any_moment(tmp_path: Path) -> None:
    """Both nodes write their files again between any two looks."""
    for moment in range(16):
        gang = PartsGang(tmp_path / str(moment), 2, recorded_layout("deepspeed-1", 2))
        gang.ready()
        gang.begin()
        gang.save(10)
        for number, _ in enumerate(gang.looks(20)):
            if number == moment:
                gang.save(10, again=1)
        assert Save(1, 10, 1) in gang.saves_there("global_step10"), moment


@pytest.mark.parametrize("lost", [0, 1])
def test_what_an_earlier_round_left_on_a_disk_is_no_part_of_a_later_one(tmp_path: Path, lost: int) -> None:
    """A node that stays has its part of a save that the other never finished: the next round saves it again."""
    gang = PartsGang(tmp_path, 2, recorded_layout("dcp-nodes", 2))
    gang.ready()
    gang.begin()
    gang.save(5)
    gang.run()
    gang.save(10, [1 - lost])
    gang.run(3)
    gang.lose(lost)
    for _ in gang.end([1 - lost]):
        pass
    gang.ready()
    best = gang.begin()
    assert best is not None
    assert best.step == 5
    gang.save(10, [lost])
    gang.run()
    assert _newest(gang) == 5
    gang.save(10, [1 - lost])
    gang.run()
    assert gang.saved_at("step-10") == Save(2, 10)


def test_a_gang_of_another_size_takes_nothing_of_the_round_before(tmp_path: Path) -> None:
    """Three parts of four were there; the round of two that follows saves the same step with other shards."""
    four = PartsGang(tmp_path / "four", 4, recorded_layout("dcp-nodes", 4))
    four.ready()
    four.begin()
    four.save(5, range(3))
    four.run()
    for _ in four.end(range(3)):
        pass
    two = PartsGang(tmp_path / "two", 2, recorded_layout("dcp-nodes", 2))
    two.bucket.files, two.round = dict(four.bucket.files), 1
    two.ready()
    assert two.begin() is None
    two.save(5)
    two.run()
    assert two.saved_at("step-5") == Save(2, 5)
    assert not two.left_over


def test_a_disk_that_outlived_its_vm_still_brings_its_part(tmp_path: Path) -> None:
    """The VM was restarted before its part was uploaded: it comes before the node is ready for the next round."""
    gang = PartsGang(tmp_path, 2, recorded_layout("deepspeed-1", 2))
    gang.ready()
    gang.begin()
    gang.save(10)
    for node in (0, 0, 0, 0):
        gang.nodes[node].travel.look(False)
    for _ in gang.end([0]):
        pass
    gang.ready([1, 0])
    assert _newest(gang) == 10


def test_only_as_many_as_are_kept_stay_anywhere(tmp_path: Path) -> None:
    """Parts that never become whole are no exception: one node saves nothing."""
    gang = PartsGang(tmp_path, 2, recorded_layout("dcp-nodes", 2))
    gang.ready()
    gang.begin()
    for step in range(5, 30, 5):
        gang.save(step, [0])
        gang.run(4)
    held = {path.split("/")[7] for path in gang.left_over}
    assert held == {"step-20", "step-25"}
    for step in (30, 35, 40):
        gang.save(step)
        gang.run()
    assert [one.step for one in gang.look()] == [40, 35]
    assert not gang.left_over


def test_best_checkpoint_of_all_nodes_stays_through_rounds(tmp_path: Path) -> None:
    """The rule is that of one VM; it is whole with the parts of all, also once the first node is another VM."""
    gang = PartsGang(tmp_path, 2, recorded_layout("dcp-nodes", 2), metric=r"val_loss (\S+)")
    values = {5: 3.0, 10: 1.0, 15: 2.0, 20: 4.0, 25: 1.5, 30: 5.0}
    gang.ready()
    gang.begin()
    for step, value in values.items():
        if step == 20:
            gang.lose(0)
            gang.ready()
            gang.begin()
        gang.nodes[0].travel.evaluations.add(step, value)
        gang.save(step)
        gang.run()
        best = min((one for one in values if one <= step), key=values.__getitem__)
        assert {best, step} <= {one.step for one in gang.look()}
    assert {one.step for one in gang.look()} == {30, 25, 15, 10}  # from 15 the second round resumed
    reports = [event for event in gang.events[0] if event["kind"] == "best"]
    assert (reports[-1]["of_step"], reports[-1]["value"]) == (10, "1.0")


def test_an_older_checkpoint_that_is_whole_comes_after_the_newest(tmp_path: Path) -> None:
    """DeepSpeed's `latest` names the newest, and the older one is whole by its files."""
    gang = PartsGang(tmp_path, 2, recorded_layout("deepspeed-1", 2))
    gang.ready()
    gang.begin()
    gang.save(10)
    gang.save(20)
    for _ in gang.end([0, 1]):
        pass
    assert [one.step for one in gang.look()] == [20, 10]
    assert [event["step"] for event in gang.events[0] if event["kind"] == "saved"] == [20, 10]


def test_nothing_is_whole_without_the_first_nodes_part(tmp_path: Path) -> None:
    """Orbax's second process writes what is complete by its names; the rest of the folder tells otherwise."""
    gang = PartsGang(tmp_path, 2, recorded_layout("orbax", 2))
    gang.ready()
    gang.begin()
    gang.save(10, [1])
    gang.run()
    gang.lose(0)
    for _ in gang.end([1]):
        pass
    gang.ready()
    assert _newest(gang) is None


@pytest.mark.parametrize("name", ["dcp-nodes", "deepspeed-1"])
def test_a_round_begins_with_the_same_on_all_disks(tmp_path: Path, name: str) -> None:
    """Files of a newer step are set aside, and so are those that the checkpoint does not have."""
    gang = PartsGang(tmp_path, 2, recorded_layout(name, 2))
    gang.ready()
    gang.begin()
    gang.save(5)
    gang.run()
    gang.save(10, [1])
    stays, folder = gang.nodes[1].saved, folder_of(name, 10)
    gang.lose(0)
    for _ in gang.end([1]):
        pass
    gang.ready()
    (stays / folder_of(name, 5) / "more").touch()
    gang.begin()
    held = [{str(path.relative_to(one.saved)) for path in one.saved.rglob("*") if path.is_file()} for one in gang.nodes]
    assert {path for path in held[1] if not path.startswith(".costguard/")} == held[0]
    assert (stays / ".costguard/earlier" / folder).exists()
    assert not (stays / folder).exists()
    gang.back_to({})
    gang.ready()
    assert gang.begin() is None
    assert not [path for one in gang.nodes for path in one.saved.iterdir() if path.name != ".costguard"]


def test_what_lay_in_the_folder_before_the_round_is_no_part_of_it(tmp_path: Path) -> None:
    """The checkpoint that it resumed from lies on all disks, and only what was saved since is uploaded."""
    gang = PartsGang(tmp_path, 2, recorded_layout("deepspeed-1", 2))
    gang.ready()
    gang.begin()
    gang.save(5)
    gang.run()
    gang.lose(1)
    for _ in gang.end([0]):
        pass
    gang.ready()
    gang.begin()
    gang.bucket.steps = 0
    gang.run()
    assert gang.bucket.steps == 2  # each node says that it has nothing
    gang.save(5)
    gang.run()
    assert {Save(1, 5), Save(2, 5)} == gang.saves_there("global_step5")


def test_a_part_that_is_not_said_is_not_taken_for_none(tmp_path: Path) -> None:
    """The first node is lost with the two oldest of four saves uploaded; the other says no part of the oldest."""
    gang = PartsGang(tmp_path, 2, recorded_layout("orbax", 2))
    gang.ready()
    gang.begin()
    gang.run(2)
    for step in (5, 10):
        gang.save(step)
        for _ in range(4):
            gang.nodes[0].travel.look(False)
    gang.save(15)
    gang.save(20)
    gang.lose(0)
    for _ in gang.end([1]):
        pass
    gang.ready()
    assert [one.step for one in gang.look()] == [10]


def test_what_all_have_uploaded_outlives_newer_ones_that_lack_a_part(tmp_path: Path) -> None:
    """Newer ones, as many as are kept, lie on the first node's disk alone: the other was lost before it saved."""
    gang = PartsGang(tmp_path, 2, recorded_layout("dcp-nodes", 2))
    gang.ready()
    gang.begin()
    gang.run(2)
    gang.save(5)
    for _ in gang.looks():
        if gang.has_all_parts(5):
            break
    assert _newest(gang) is None
    gang.save(10, [0])
    gang.save(15, [0])
    gang.lose(1)
    for _ in gang.end([0]):
        pass
    assert _newest(gang) == 5
