"""Curves through preemptions, and their thinning."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from costguard_vm.progress.series import rewound, thinned


class P(NamedTuple):
    start: tuple[int, int]
    done: float | None
    unit: str | None = "step"


FIRST, SECOND, THIRD = (1, 1), (2, 1), (2, 2)


def test_work_that_is_done_again_is_left_out() -> None:
    """Preempted at 300 and resumed at 200: the model is the one that went on from there."""
    seen = [P(FIRST, 100), P(FIRST, 200), P(FIRST, 300), P(SECOND, 210), P(SECOND, 310)]
    assert rewound(seen) == [P(FIRST, 100), P(FIRST, 200), P(SECOND, 210), P(SECOND, 310)]


def test_a_third_start_can_rewind_both_before_it() -> None:
    """It went on from a checkpoint of the first run."""
    seen = [P(FIRST, 100), P(FIRST, 200), P(SECOND, 210), P(THIRD, 150)]
    assert rewound(seen) == [P(FIRST, 100), P(THIRD, 150)]


def test_points_in_another_unit_or_without_a_position_stay() -> None:
    """Nothing says where they belong."""
    seen = [P(FIRST, 7, "epoch"), P(FIRST, None, None), P(SECOND, 2)]
    assert rewound(seen) == seen


def test_a_start_that_has_told_nothing_rewinds_nothing() -> None:
    """A new VM that is preempted while it loads."""
    seen = [P(FIRST, 100), P(SECOND, None, None)]
    assert rewound(seen) == seen


@given(st.lists(st.integers(), max_size=3000), st.integers(3, 600))
def test_thinning_keeps_the_ends_and_an_even_rest(numbers: list[int], most: int) -> None:
    """Never more than allowed, nor less than nearly half of that where there were more."""
    points = [P(FIRST, number) for number in range(len(numbers))]
    kept = thinned(points, most)
    assert len(kept) <= most
    if points:
        assert (kept[0], kept[-1]) == (points[0], points[-1])
    if len(points) > most:
        assert len(kept) >= most // 2
        gaps = [(b.done or 0) - (a.done or 0) for a, b in pairwise(kept)]
        assert len(set(gaps[:-1])) <= 1
