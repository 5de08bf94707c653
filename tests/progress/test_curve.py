"""Whether a metric still improves: tests against statistics' own figures, and against real training runs."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path

import pytest

from costguard.progress.curve import FEWEST, first_standstill, halves, judge, trend

CURVES = Path(__file__).parents[3] / "shared" / "loss-curves" / "curves.csv.gz"


def decay(count: int, noise: float = 0.0, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [1 + 9 / (1 + step / 5) + chance.gauss(0, noise) for step in range(count)]


def test_mann_kendall_matches_its_formula() -> None:
    """Kendall's S of ten values in order is 45, its variance n(n-1)(2n+5)/18 = 125: z = 44 / 11.18 = 3.94."""
    assert round(trend(list(range(10))), 2) == 3.94
    assert trend([5.0] * 10) == 0.0
    assert trend(list(range(10, 0, -1))) == -trend(list(range(10)))


def test_mann_whitney_matches_its_formula() -> None:
    """Two groups of five that do not overlap: U = 25, mean 12.5, standard deviation 4.787, z = 2.61."""
    assert round(halves([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), 2) == 2.61


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_curve_that_stops_improving_is_called(better: str) -> None:
    """It speaks after the level has held for some time, whichever way is better."""
    values = [*decay(40), *(decay(40)[-1] + 0.01 * (step % 3 - 1) for step in range(120))]
    spoke_at, reason = first_standstill([-value for value in values] if better == "higher" else values, better)
    assert spoke_at is not None
    assert 40 < spoke_at < 120
    assert reason.startswith("It stands still: the last ")


def test_a_curve_that_improves_is_left_alone() -> None:
    """Also slowly, and with noise."""
    assert first_standstill([100 - step for step in range(200)])[0] is None
    assert first_standstill(decay(60, 0.02))[0] is None


def test_noise_hides_a_flat_curve() -> None:
    """Where all gain is within the noise it says so, and speaks never."""
    chance = random.Random(3)
    values = [chance.gauss(5, 1) for _ in range(100)]
    assert first_standstill(values)[0] is None


def test_too_few_evaluations_say_nothing() -> None:
    """Below the rule's least number its reason says how many there are."""
    verdict = judge([3.0] * (FEWEST - 1))
    assert not verdict.stands_still
    assert f"There are {FEWEST - 1} evaluations" in verdict.reason


def test_evaluations_without_a_number_are_counted() -> None:
    """The number of an evaluation is its place in the file, also after one that was nan."""
    values: list[float | None] = [*decay(40), *(1.9 for _ in range(100))]
    plain = first_standstill(values)[0]
    assert plain is not None
    assert first_standstill([None, None, *values])[0] == plain + 2
    with pytest.raises(ValueError, match="lower"):
        judge([1.0], "smaller")


def test_real_runs_are_never_called_too_early() -> None:
    """Of 647 real runs with 20 evaluations or more, none still had 2 % of its gain to come when the rule spoke.

    U-Net3D is left out, as its evaluations begin when it is nearly trained. About every fifth run, to be quick.
    """
    if not CURVES.exists():
        pytest.skip("the recorded curves are not here: ../shared/loss-curves")
    csv.field_size_limit(10**9)
    early, judged = [], 0
    with gzip.open(CURVES, "rt") as source:
        for run in csv.DictReader(source):
            values = [float(value) for value in run["value"].split()]
            if len(values) < 20 or "unet" in run["benchmark"].lower() or int(run["run"]) % 5:
                continue
            judged += 1
            spoke_at, _ = first_standstill(values, run["better"])
            if spoke_at is None:
                continue
            turned = [-value for value in values] if run["better"] == "lower" else values
            gain = max(turned) - min(turned[:3])
            if (max(turned) - max(turned[:spoke_at])) / gain >= 0.02:
                early.append(run["run"])
    assert judged > 100
    assert early == []
