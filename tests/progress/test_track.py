"""A training's position, total, speed and points, from the readings of its output."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from costguard_vm.progress.log_line import LogReading
from costguard_vm.progress.log_reader import OutputReader
from costguard_vm.progress.track import MOST_POINTS, Track


def tracked(*lines: str, every_s: float = 1.0) -> Track:
    reader, track = OutputReader(), Track()
    for number, line in enumerate(lines):
        reading = reader.read(line)
        if reading is not None:
            track.take(reading, f"2026-11-22T10:{number // 60:02d}:{number % 60:02d}Z", number * every_s)
    return track


def state(*lines: str) -> dict[str, Any]:
    return tracked(*lines).state()


def test_a_bar_of_the_whole_run_gives_step_and_total() -> None:
    """github.com/huggingface/transformers: Trainer's bar counts optimizer steps over all epochs."""
    seen = state(
        " 10%|█         | 50/500 [00:10<01:30,  5.00it/s]", " 20%|██        | 100/500 [00:20<01:20,  5.00it/s]"
    )
    assert (seen["unit"], seen["done"], seen["of"]) == ("step", 100, 500)
    assert seen["steps_per_s"] == 50.0


def test_batches_of_epochs_are_counted_over_the_whole_run() -> None:
    """Keras: the bar begins again with every epoch, which the line before it names, from 1."""
    seen = state(
        "Epoch 1/4",
        "100/100 [==============================] - 3s 30ms/step - loss: 0.9",
        "Epoch 2/4",
        " 50/100 [==============>...............] - ETA: 1s - loss: 0.5",
    )
    assert (seen["unit"], seen["done"], seen["of"]) == ("batch", 150, 400)


def test_epochs_that_count_from_zero_begin_at_zero() -> None:
    """Lightning's bar; its last epoch of ten is 9, or 9/9 in later versions: the total is rather too large."""
    seen = state("Epoch 0/9:  50%|█████     | 50/100 [00:05<00:05, 10.00it/s, v_num=0, loss=0.7]")
    assert (seen["done"], seen["of"]) == (50, 1000)


def test_a_bar_without_an_epoch_counts_on_when_it_begins_again() -> None:
    """A plain loop over epochs with tqdm titled Training: nothing says how many epochs there are."""
    seen = state("Training:  90%|█████████ | 90/100 [00:05<00:05]", "Training:  10%|█         | 10/100 [00:05<00:05]")
    assert (seen["done"], "of" in seen) == (110, False)


def test_a_fraction_of_an_epoch_tells_the_steps_of_all() -> None:
    """500 steps are a quarter of an epoch: three epochs are 6,000 steps."""
    track = Track()
    track.take(LogReading("train", step=500, epoch=0.25, epoch_total=3), "a", 0.0)
    assert track.state()["of"] == 6000


def test_steps_win_over_batches_and_are_not_lost_to_them() -> None:
    """A bar within an epoch after a line with the global step changes no position."""
    seen = state("global_step: 700 loss: 0.5", "Epoch 2/3:  10%|█         | 10/100 [00:05<00:05, 10.00it/s]")
    assert (seen["unit"], seen["done"]) == ("step", 700)


def test_points_are_the_newest_of_the_training_and_every_evaluation() -> None:
    """Fifty training lines and one evaluation between them become four points in their order, with the first of all."""
    lines = [f"step: {number} loss: {100 - number}" for number in range(50)]
    points = tracked(*lines[:25], "{'eval_loss': 0.5, 'epoch': 1.0}", *lines[25:]).take_points()
    assert [(one.phase, one.done, one.loss) for one in points] == [
        ("train", 0, 100),
        ("train", 24, 76),
        ("eval", 24, None),
        ("train", 49, 51),
    ]
    assert points[2].metrics == {"eval_loss": 0.5}


def test_first_step_keeps_its_own_moment_however_late_it_is_sent() -> None:
    """A start is measured up to it: a report that carries a later step alone would make the start longer."""
    track = Track()
    for second, step in enumerate((1, 30, 60)):
        track.take(LogReading("train", step=step, loss=1.0), f"{second:02}", float(second))
    assert [(point.done, point.at) for point in track.take_points()] == [(1, "00"), (60, "02")]
    track.take(LogReading("train", step=90, loss=1.0), "03", 3.0)
    assert [(point.done, point.at) for point in track.take_points()] == [(90, "03")]


def test_a_loss_that_is_not_a_number_is_a_point_of_its_own() -> None:
    """It is not lost to the next training line, and is reported without delay."""
    track = tracked("step: 1 loss: 2.0", "step: 2 loss: nan", "step: 3 loss: 1.9")
    assert track.has_bad_value()
    assert [point.as_json().get("loss") for point in track.take_points()] == [2, "nan", 1.9]
    assert not track.has_bad_value()


def test_a_bar_without_a_loss_replaces_none_that_has_one() -> None:
    """A bar is drawn many times between two lines with a loss."""
    track = tracked("step: 10 loss: 0.5", "step: 11/100", "step: 12/100")
    assert [(point.done, point.loss) for point in track.take_points()] == [(10, 0.5)]


def test_learning_rates_are_no_curve() -> None:
    """They are shown with the heartbeat, and no point carries them."""
    track = tracked("step: 10 loss: 0.5 lr: 0.001 val_loss: 0.7")
    assert track.take_points()[0].metrics == {"val_loss": 0.7}
    assert track.state()["metrics"]["lr"] == 0.001


def test_a_line_with_both_losses_adds_to_both_curves() -> None:
    """github.com/karpathy/nanoGPT, train.py: of the same evaluation."""
    [point] = tracked("step 250: train loss 1.9, val loss 2.1").take_points()
    assert (point.done, point.loss, point.metrics) == (250, 1.9, {"val loss": 2.1})


def test_the_loss_of_an_evaluation_alone_is_no_training_loss() -> None:
    """It would show a step in the curve of the training loss."""
    track = Track()
    track.take(LogReading("eval", metrics={"loss": 0.4, "accuracy": 0.9}), "a", 0.0)
    assert [(one.loss, one.metrics) for one in track.take_points()] == [(None, {"eval_loss": 0.4, "accuracy": 0.9})]


@given(
    st.lists(
        st.builds(
            LogReading,
            phase=st.sampled_from(["train", "eval"]),
            step=st.none() | st.integers(0, 10**6),
            epoch=st.none() | st.floats(0, 100),
            epoch_total=st.none() | st.integers(1, 100),
            batch=st.none() | st.integers(0, 1000),
            batch_total=st.none() | st.integers(1, 1000),
            loss=st.none() | st.floats(),
            metrics=st.dictionaries(st.sampled_from([f"eval_{n}" for n in range(40)]), st.floats(), max_size=5),
        ),
        max_size=120,
    )
)
def test_what_waits_is_bounded_and_written_as_json_whatever_was_read(readings: list[LogReading]) -> None:
    """No series of readings makes the points, the metrics or the numbers of a heartbeat grow without end."""
    track = Track()
    for number, reading in enumerate(readings):
        track.take(reading, f"{number:06d}", float(number))
    seen, points = track.state(), track.take_points()
    assert len(points) <= MOST_POINTS + 1
    assert len(seen.get("metrics", {})) <= 20
    numbers = [value for value in seen.values() if isinstance(value, float)]
    assert all(math.isfinite(number) for number in numbers)
