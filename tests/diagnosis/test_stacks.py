"""Main threads stand somewhere: stacks of real PyTorch trainings on CPU, and public dumps of trainings on GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costguard_vm.diagnosis.stacks import own_frame, place_of, read_raw, summed_up

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "stacks.json").read_text())
RUNS = {name: run for name, run in RECORDED["runs"].items() if run["most"]}


@pytest.mark.parametrize("name", RUNS)
def test_recorded_training_stands_where_it_was_made_to(name: str) -> None:
    """The cause is known by construction: most looks show it."""
    signals = summed_up(read_raw("\n".join(RUNS[name]["raw"])))

    assert signals.looks is not None
    assert signals.looks > 40
    assert signals.places is not None
    assert max(signals.places, key=lambda place: (signals.places or {})[place]) == RUNS[name]["most"]
    assert sum(signals.places.values()) == pytest.approx(1)


def test_saving_is_seen_in_a_recorded_training() -> None:
    """The looks within torch.save alone are the checkpoint's; making the tensor before it is not."""
    signals = summed_up(read_raw("\n".join(RECORDED["runs"]["save"]["raw"])))

    assert signals.places is not None
    assert set(signals.places) == {"checkpoint", "host"}


@pytest.mark.parametrize("dump", RECORDED["public"], ids=lambda dump: dump["source"][:30])
def test_public_dumps_are_placed(dump: dict[str, Any]) -> None:
    """Megatron, DeepSpeed and accelerate on GPUs, as their users published them."""
    assert place_of(dump["stack"]) == dump["place"]


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        # The innermost frame first; functions as the libraries' sources name them.
        (["_value (jax/_src/array.py:631)", "__float__ (jax/_src/array.py:300)", "train (t.py:3)"], "device"),
        (["block_until_ready (jax/_src/array.py:570)", "train (t.py:3)"], "device"),
        (
            [
                "quick_execute (tensorflow/python/eager/execute.py:53)",
                "iterator_get_next (tensorflow/python/ops/gen_dataset_ops.py:3028)",
                "OwnedIterator._next_internal (tensorflow/python/data/ops/iterator_ops.py:773)",
                "OwnedIterator.__next__ (tensorflow/python/data/ops/iterator_ops.py:810)",
                "main (t.py:9)",
            ],
            "loader",
        ),
        (["Condition.wait (threading.py:327)", "Queue.get (queue.py:171)", "main (t.py:9)"], "host"),
        (["tqdm.refresh (tqdm/std.py:1347)", "tqdm.update (tqdm/std.py:1242)", "main (t.py:9)"], "logging"),
        (["examples (t.py:4)", "tqdm.__iter__ (tqdm/std.py:1181)", "main (t.py:9)"], "host"),
        (["decode (PIL/ImageFile.py:293)", "main (t.py:9)"], "storage"),
        (["get_batch (train.py:120)", "<module> (train.py:290)"], "storage"),
        (
            [
                "_try_get_data (torch/utils/data/dataloader.py:1011)",
                "_next_data (torch/utils/data/dataloader.py:1207)",
                "get_batch (pretrain_gpt.py:40)",
            ],
            "loader",
        ),
        (["_write_item (filesystem.py:300)", "save (torch/distributed/checkpoint/saver.py:170)"], "checkpoint"),
        (["barrier (torch/distributed/distributed_c10d.py:2)", "_save_checkpoint (trainer.py:1)"], "checkpoint"),
        (["_find_spec (<frozen importlib._bootstrap>:1140)", "<module> (t.py:1)"], "other"),
        ([], "other"),
        (["nonsense"], "host"),
    ],
)  # fmt: skip
def test_stack_is_placed_by_its_functions(stack: list[str], place: str) -> None:
    """A function that no rule knows is Python of the training itself; a stack that cannot be read is other."""
    assert place_of(stack) == place


def test_frame_shown_is_the_one_that_waits() -> None:
    """`Condition.wait` would say nothing to its owner: the library or script that calls it does."""
    stack = ["Condition.wait (threading.py:327)", "Queue.get (queue.py:171)", "Feed.next (feed.py:10)", "main (t.py:1)"]

    assert own_frame(stack) == "next (feed.py)"


def test_main_thread_without_a_name_is_known_by_its_number() -> None:
    """The stack is as py-spy 0.4.3 wrote it for a script that does not import threading."""
    text = "thread (13315);<module> (r.py:3);get_batch (r.py:2) 9\nthread (13316);work (r.py:2) 9"

    assert read_raw(text, ["13315"]) == {("get_batch (r.py:2)", "<module> (r.py:3)"): 9}


def test_output_without_a_main_thread_is_no_measurement() -> None:
    """py-spy that cannot read a process leaves an empty file: that is an error, and no share is 0."""
    assert read_raw("") == {}
    assert read_raw("thread (12): Thread-1 (feed);run (t.py:1) 29\nnonsense", ["13"]) == {}
    assert summed_up({}).places is None
    assert summed_up({}).error
