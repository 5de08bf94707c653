"""A metric still improves or not: tests against statistics' own figures, and against real training runs."""

from __future__ import annotations

import random
from functools import cache
from statistics import median

import pytest
from tests.progress.curves import CURVES, Measured, measure, recorded, this_rule
from tests.progress.curves import FEWEST as LEAST

from costguard_vm.progress.curve import FEWEST, first_standstill, judge, once_each, slope, trend


def decay(count: int, noise: float = 0.0, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [1 + 9 / (1 + step / 5) + chance.gauss(0, noise) for step in range(count)]


def test_mann_kendall_matches_its_formula() -> None:
    """Kendall's S of ten values in order is 45, its variance n(n-1)(2n+5)/18 = 125: z = 44 / 11.18 = 3.94."""
    assert round(trend(list(range(10))), 2) == 3.94
    assert trend([5.0] * 10) == 0.0
    assert trend(list(range(10, 0, -1))) == -trend(list(range(10)))


def test_the_slope_and_its_error_match_their_formulas() -> None:
    """The line of 1, 3, 2, 5 rises by 1.1 each time; its residuals' squares add up to 2.7, so that the error is
    sqrt(2.7 / 2 / 5) = 0.52.
    """
    steepness, error = slope([1, 3, 2, 5])
    assert round(steepness, 9) == 1.1
    assert round(error, 4) == 0.5196


def test_an_evaluation_that_every_rank_prints_counts_once() -> None:
    """Eight ranks print each value of a curve that still improves (as DLRM's logs have it)."""
    values = [1 - 0.9**step for step in range(12)]
    assert first_standstill([value for value in values for _ in range(8)], "higher")[0] is None
    assert list(once_each([1, 1, 1, 2, 2, 2, 3, 3])) == [1, 2, 3]
    assert list(once_each([1, 1, 2, 2, *[3] * 9])) == [1, 2, *[3] * 9]


def test_a_metric_that_never_improves_is_called_in_the_end() -> None:
    """Real BERT runs stood still for 13 evaluations before they learned, so that it takes more."""
    assert first_standstill([0.0564] * 35, "higher")[0] is None
    assert first_standstill([0.0564] * 60, "higher") == (
        36,
        "It stands still: in 36 evaluations the metric has not improved once.",
    )


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_curve_that_stops_improving_is_called(better: str) -> None:
    """It speaks after the level has held for some time, whichever way is better."""
    values = [*decay(40), *(decay(40)[-1] + 0.01 * (step % 3 - 1) for step in range(120))]
    spoke_at, reason = first_standstill([-value for value in values] if better == "higher" else values, better)
    assert spoke_at is not None
    assert 40 < spoke_at < 120
    assert reason.startswith("It stands still: the last ")


def test_a_curve_that_improves_is_left_alone() -> None:
    """The curve may be slow, and noisy."""
    assert first_standstill([100 - step for step in range(200)])[0] is None
    assert first_standstill(decay(60, 0.02))[0] is None


def test_noise_hides_a_flat_curve() -> None:
    """Where all gain is within the noise it says so, and speaks never."""
    chance = random.Random(3)
    values = [chance.gauss(5, 1) for _ in range(100)]
    assert first_standstill(values)[0] is None


def test_too_few_evaluations_say_nothing() -> None:
    """The reason below the rule's least number says how many there are."""
    verdict = judge([3.0] * (FEWEST - 1))
    assert not verdict.stands_still
    assert verdict.reason.endswith(f", and has {FEWEST - 1}.")


def test_evaluations_without_a_number_are_counted() -> None:
    """The number of an evaluation is its place in the file, also after one that was nan."""
    values: list[float | None] = [*decay(40), *(1.9 for _ in range(100))]
    plain = first_standstill(values)[0]
    assert plain is not None
    assert first_standstill([None, None, *values])[0] == plain + 2
    with pytest.raises(ValueError, match="lower"):
        judge([1.0], "smaller")


def test_real_runs_are_never_called_too_early() -> None:
    """The runs are about every fifth of those of `make curves`, to be quick: none had 2 % of its gain to come when it
    spoke.
    """
    measured = _measured()
    assert measured.judged[False] > 100
    assert measured.early_of == {}


def test_constructed_standstills_are_found() -> None:
    """The standstills are of the same runs, found sooner than before: half as long again as the run had lasted."""
    measured = _measured()
    assert min(measured.shares) >= 0.95
    assert median(measured.delays) < 0.6


@cache
def _measured() -> Measured:
    if not CURVES.exists():
        pytest.skip("the recorded curves are not here: ../shared/loss-curves")
    some = [curve for curve in recorded() if len(curve.values) >= LEAST and not curve.run % 5]
    return measure(this_rule, [curve for curve in some if not curve.is_counted_apart], seeds=(1,))


def test_a_trend_upward_keeps_a_curve_from_standing_still() -> None:
    """Each evaluation is better than the one before, though by so little that the window gained next to nothing."""
    fallen = decay(40)
    creeping = [*fallen, *(fallen[-1] - 1e-5 * step for step in range(1, 121))]
    spoke_at, reason = first_standstill(creeping)
    assert spoke_at is None
    assert reason.endswith("but they may rise.")
