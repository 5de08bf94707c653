"""Hours left of a training: on real evaluation times, and through evaluations, preemptions, slow epochs."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard_vm.progress.finish import Mark, TrainingLeft, left

CURVES = Path(__file__).parents[3] / "shared" / "loss-curves" / "curves.csv.gz"


def marks(
    steps: int, pace_s: float = 2.0, every: int = 30, run: int = 1, begin: float = 0.0, first: int = 0
) -> list[Mark]:
    return [Mark(run, begin + (n - first) * pace_s, n) for n in range(first, steps + 1, every)]


def known(work: TrainingLeft | None) -> TrainingLeft:
    assert work is not None
    return work


def test_an_even_pace_gives_its_hours() -> None:
    """1,800 steps at 2 s are an hour."""
    work = known(left(marks(1200), 3000))
    assert work.steps_left == 1800
    assert work.likely_h == pytest.approx(1.0)
    assert 0.9 < work.low_h < 1.0 < work.high_h < 1.1


@pytest.mark.parametrize(
    ("seen", "total"),
    [
        (marks(1200), None),
        (marks(1200), 1100),  # it went beyond: that was not the total
        (marks(60), 3000),  # two intervals
        ([], 3000),
        ([Mark(1, 0, 5), Mark(1, 600, 5), Mark(1, 1200, 5), Mark(1, 1800, 5)], 3000),  # it stands
        (marks(1200), float("nan")),
    ],
)
def test_what_is_not_known_is_not_said(seen: list[Mark], total: float | None) -> None:
    """No estimate is made without a total, a pace, or enough of either."""
    assert left(seen, total) is None


def test_at_the_end_nothing_is_left() -> None:
    """The rest is zero also before there is a pace."""
    assert left([Mark(1, 0, 3000)], 3000) == TrainingLeft(0, 0, 0, 0)


def test_a_total_that_grows_gives_more_hours() -> None:
    """The newest total counts."""
    assert known(left(marks(1200), 6000)).likely_h == pytest.approx(
        known(left(marks(1200), 3000)).likely_h * 4800 / 1800
    )


def test_the_first_interval_of_a_run_is_no_pace() -> None:
    """Ten minutes of compiling before step 30, in each of two runs: what is left goes on at 2 s a step."""
    first = [Mark(1, 0.0, 0), *(mark._replace(at_s=mark.at_s + 540) for mark in marks(600, first=30))]
    second = [Mark(2, 40_000.0, 600), *marks(1200, run=2, begin=40_600, first=630)]
    assert known(left([*first, *second], 3000)).likely_h == pytest.approx(1.0, rel=0.01)


def test_time_between_runs_is_no_training() -> None:
    """After ten hours in a queue it goes on at the same pace, from a step before the last one."""
    seen = [*marks(600), *marks(1200, run=2, begin=40_000, first=510)]
    assert known(left(seen, 3000)).likely_h == pytest.approx(1.0, rel=0.02)


def test_evaluations_count_into_the_pace_and_its_range() -> None:
    """Every 300 steps an evaluation of 100 s: they come again in what is left."""
    seen, at = [], 0.0
    for number in range(0, 1501, 30):
        seen.append(Mark(1, at, number))
        at += 60 + (100 if number % 300 == 270 else 0)
    work = known(left(seen, 3000))
    assert work.low_h < (1500 * 2 + 500) / 3600 < work.high_h
    assert work.likely_h == pytest.approx((1500 * 2 + 500) / 3600, rel=0.08)


def test_a_pace_that_drifts_widens_the_range() -> None:
    """Twice as slow since a while: both the old pace and the new one are within it."""
    seen = [*marks(1500), *(Mark(1, 3000 + (n - 1500) * 4, n) for n in range(1530, 2251, 30))]
    work = known(left(seen, 3000))
    assert work.low_h < 750 * 2.7 / 3600
    assert work.high_h > 750 * 4 / 3600


@given(
    st.lists(st.tuples(st.integers(1, 3), st.floats(0, 1e6), st.floats(0, 1e6)), max_size=40),
    st.none() | st.floats(0, 1e7),
)
def test_the_range_is_in_order_whatever_was_seen(raw: list[tuple[int, float, float]], total: float | None) -> None:
    """Clocks that go back and positions that jump break nothing."""
    work = left([Mark(*one) for one in raw], total)
    if work is not None:
        assert 0 <= work.low_h <= work.likely_h <= work.high_h < float("inf")


def runs() -> Iterator[tuple[list[float], list[float]]]:
    csv.field_size_limit(10**9)
    with gzip.open(CURVES, "rt") as file:
        for row in csv.DictReader(file):
            seconds, at = ([float(word) for word in row[name].split()] for name in ("seconds", "at"))
            if len(seconds) >= 15 and all(a < b for a, b in pairwise(at)):
                yield seconds, at


@pytest.mark.skipif(not CURVES.exists(), reason="needs ../shared/loss-curves/curves.csv.gz, MLPerf's recorded runs")
def test_real_runs_end_within_the_range() -> None:
    """MLPerf Training v1.0 result logs: at least nine in ten, at any part of the way, in a range that is not wide."""
    chance = random.Random(1)
    inside, widths = [], []
    for seconds, at in chance.sample(list(runs()), 300):
        for share in (0.25, 0.5, 0.75, 0.9):
            place = int(len(at) * share)
            work = left([Mark(1, *one) for one in zip(seconds[:place], at[:place], strict=True)], at[-1])
            if work is not None:
                inside.append(work.low_h <= (seconds[-1] - seconds[place - 1]) / 3600 <= work.high_h)
                widths.append(work.high_h / work.low_h)
    assert len(inside) > 500
    assert sum(inside) / len(inside) >= 0.9
    assert sorted(widths)[len(widths) // 2] < 1.3
