"""The judge chooses the checkpoint to resume from, and describes the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.checkpoints import writers
from tests.checkpoints.places import Memory, Written, reasons

from costguard_vm.model.checkpoint import CheckpointState, Framework, LookFor


def steps(*numbers: int) -> list[Written]:
    return [writer for step in numbers for writer in writers.hugging_face(step)]


def test_nothing_there_is_said_plainly() -> None:
    """An empty location, and one with other things, both start work from the beginning, and say so."""
    assert Memory([]).look().notes == ("There is nothing here: work would start from the beginning.",)
    (note,) = Memory([("notes.txt", b"x")]).look().notes
    assert note == (
        "1 file lies at gs://runs/one that no layout recognises (notes.txt): work would start from the beginning."
    )
    (note,) = Memory([(f"model-{name}", b"x") for name in "abcde"]).look().notes
    assert note.startswith(
        "5 files lie at gs://runs/one that no layout recognises (model-a, model-b, model-c and 2 more)"
    )


def test_torn_ones_alone_start_from_the_beginning() -> None:
    """The result says so too, and is never silent."""
    look = Memory(steps(5)[:-1]).look()
    assert look.resume is None
    assert look.notes == ("No checkpoint is complete: work would start from the beginning.",)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.integers(0, 10**6), st.booleans(), max_size=8), st.randoms(use_true_random=False))
def test_the_newest_complete_one_of_many(whole: dict[int, bool], random: Random) -> None:
    """The choice does not depend on what lies between them, or on their order."""
    order = list(whole)
    random.shuffle(order)
    look = Memory([file for step in order for file in steps(step)[: None if whole[step] else -1]]).look(examine=9)
    assert (look.resume.step if look.resume else None) == max((step for step in whole if whole[step]), default=None)
    assert {one.step: one.is_complete for one in look.checkpoints} == whole


def test_what_changed_between_two_listings_does_not_count() -> None:
    """A file that appeared or grew makes its checkpoint one that may still be written; the older one is taken."""
    before = Memory([*steps(10, 20)[:-1]])
    now = Memory(steps(10, 20))
    look = now.look(earlier=before.listing)
    assert look.checkpoints[0].state is CheckpointState.CHANGING
    assert "trainer_state.json appeared since the previous listing" in reasons(look, "checkpoint-20")
    assert look.resume is not None
    assert look.resume.step == 10

    path = "checkpoint-20/optimizer.pt"
    files = dict(now.listing.files)
    files[path] = replace(files[path], tag="other")
    look = now.look(earlier=replace(now.listing, files=files))
    assert f"{path} changed since the previous listing" in reasons(look, "checkpoint-20")
    same = now.look(earlier=now.listing).resume
    assert same is not None
    assert same.step == 20


def test_what_goes_while_it_is_read_does_not_count() -> None:
    """Checkpoints are rotated away under our eyes: the next older one is looked at."""
    place = Memory(steps(10, 20))
    del place.contents["checkpoint-20/optimizer.pt"]
    look = place.look()
    assert look.checkpoints[0].state is CheckpointState.CHANGING
    assert "was removed or replaced while it was read" in reasons(look, "checkpoint-20")
    assert look.resume is not None
    assert look.resume.step == 10


def test_older_ones_are_not_read_without_need() -> None:
    """The newest are looked inside, and as many more as it takes; what names show is reported of all."""
    place = Memory([*steps(1, 2), *steps(3)[:-1], *steps(4, 5)])
    place.contents["checkpoint-5/optimizer.pt"] = bytes(len(place.contents["checkpoint-5/optimizer.pt"]))
    look = place.look()
    states = [one.state.value for one in look.checkpoints]
    assert states == ["torn", "complete", "torn", "unread", "unread"]
    assert not any(path.startswith(("checkpoint-1/", "checkpoint-2/")) for path, _, _ in place.asked)
    assert [one.state.value for one in place.look(examine=9).checkpoints][3:] == ["complete", "complete"]


def test_the_location_may_be_the_checkpoint_itself() -> None:
    """The work then resumes from the location."""
    written = [(path.removeprefix("checkpoint-7/"), body) for path, body in writers.hugging_face(7)]
    look = Memory(written, "s3://runs/one/checkpoint-7").look()
    assert look.resume is not None
    assert (look.resume.name, look.resume.step, look.resume.resume_from) == (".", 7, "s3://runs/one/checkpoint-7")


def test_what_lies_further_down_is_named_and_not_taken() -> None:
    """Another run's checkpoint is never resumed from by accident."""
    look = Memory([(f"ana/llama/{path}", body) for path, body in steps(7)]).look()
    assert look.resume is None
    assert look.notes[-1] == (
        "There are checkpoints further down, in gs://runs/one/ana/llama: name that location instead."
    )


def test_a_pattern_is_proposed() -> None:
    """The files have numbers in their names."""
    look = Memory([("ckpt_0100.pkl", b"x")]).look()
    assert look.notes[-1] == "If they are checkpoints, name them: --pattern 'ckpt_{step}.pkl'"


def test_two_runs_in_one_place_are_reported() -> None:
    """The highest step wins, and it is said that a lower one was written later."""
    look = Memory(steps(500, 20)).look()
    assert look.resume is not None
    assert look.resume.step == 500
    assert "checkpoint-20 was written later than checkpoint-500" in look.notes[0]


def test_several_layouts_in_one_place_are_reported() -> None:
    """They are ordered by step; a framework that is named leaves the others out."""
    place = Memory([*steps(5), *writers.lightning(9)])
    look = place.look()
    assert look.resume is not None
    assert look.resume.framework is Framework.LIGHTNING
    assert "Several layouts are here (hugging-face, lightning)" in look.notes[0]
    named = place.look(LookFor(Framework.HUGGING_FACE)).resume
    assert named is not None
    assert named.step == 5


def test_folders_that_could_not_be_listed_are_reported() -> None:
    """The contents of such folders are unknown, not absent."""
    place = Memory(steps(5))
    place.listing = replace(place.listing, unread=("checkpoint-9",))
    assert place.look().notes == ("checkpoint-9 could not be listed, so its content is not known.",)


def test_a_checkpoint_tells_size_and_time() -> None:
    """All of its bytes, and when its last file was written."""
    place = Memory(steps(5))
    resume = place.look().resume
    assert resume is not None
    assert resume.files == 10
    assert resume.size == sum(len(body) for body in place.contents.values())
    first = place.listing.files["checkpoint-5/config.json"].modified_at
    assert resume.written_at == first + timedelta(seconds=9)
