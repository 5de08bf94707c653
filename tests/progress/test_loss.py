"""A loss that went wrong is distinguished from a noisy one, and reported once."""

from __future__ import annotations

import random

import pytest

from costguard_vm.progress.loss import loss_trouble

GOOD: list[float | None] = [0.5 + 0.02 * (step % 5) for step in range(30)]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_trouble_at_once(value: float | None) -> None:
    """The first one that was printed counts too."""
    trouble = loss_trouble(GOOD, [0.5, value, value])
    assert trouble is not None
    assert (trouble.place, trouble.value, trouble.usual) == (1, None, 0.54)
    first = loss_trouble([], [value])
    assert first is not None
    assert first.usual is None


def test_a_loss_ten_times_what_it_was_is_trouble() -> None:
    """Nine times is not."""
    trouble = loss_trouble(GOOD, [5.5])
    assert trouble is not None
    assert (trouble.place, trouble.value) == (0, 5.5)
    assert loss_trouble(GOOD, [4.8]) is None


def test_trouble_that_goes_on_is_reported_once() -> None:
    """The trouble is reported once more after it went well again."""
    assert loss_trouble([*GOOD, None], [None, None]) is None
    assert loss_trouble([*GOOD, 7.0], [9.0]) is None
    again = loss_trouble([*GOOD, None, 0.5], [0.5, None])
    assert again is not None
    assert again.place == 1


def test_a_noisy_loss_is_left_alone() -> None:
    """The loss is as of reinforcement learning, where values ten times the median are usual; and one that is below
    zero.
    """
    chance = random.Random(3)
    for _ in range(200):
        values: list[float | None] = [chance.lognormvariate(0, 0.8) for _ in range(110)]
        assert loss_trouble(values[:100], values[100:]) is None
    assert loss_trouble([-1.0] * 30, [4.0]) is None


def test_a_loss_that_begins_high_is_left_alone() -> None:
    """The first values of a training fall by much more than tenfold."""
    assert loss_trouble([], [11.0, 6.0, 3.0, 1.0, 0.4, 0.3, 0.2, 0.1, 0.1]) is None
