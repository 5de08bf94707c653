"""Whether a metric still improves: a hint for people, never a reason to act.

The rule and how it was measured: `service/docs/still-learning.md`. It speaks where the last third of the curve brought
next to nothing, shows no trend, and stands out clearly from the noise. Pure. Travels with the agent.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

FEWEST = 30  # evaluations before it says anything
SMALLEST_WINDOW = 10
LEAST_GAIN = 0.01  # of all gain so far, which the last third must bring to count as progress
MOST_TREND = 0.5  # in standard deviations, of Mann-Kendall's and Mann-Whitney's tests
LEAST_SIGNAL = 10.0  # all gain so far, in units of the noise


class CurveVerdict(NamedTuple):
    """`stands_still` with its reason; where noise hides the curve, `is_hidden`. Shares are of all gain so far."""

    stands_still: bool
    reason: str
    is_hidden: bool = False
    gained: float | None = None  # in the window, as a share
    window: int = 0  # evaluations


def first_standstill(values: Sequence[float | None], better: str = "lower") -> tuple[int | None, str]:
    """The number of the evaluation (from 1) at which the rule first says so, and its reason; else None and why not.

    None among the values is an evaluation without a number, which counts as an evaluation alone.
    """
    finite: list[float] = []
    verdict = CurveVerdict(False, "There are no evaluations.")
    for place, value in enumerate(values, 1):
        if value is None or not math.isfinite(value):
            continue
        finite.append(value)
        verdict = judge(finite, better)
        if verdict.stands_still:
            return place, verdict.reason
    return None, verdict.reason


def judge(values: Sequence[float], better: str = "lower") -> CurveVerdict:
    """Of all evaluations so far, the oldest first. `better` is "lower" or "higher"."""
    if better not in ("lower", "higher"):
        raise ValueError(f'better must be "lower" or "higher", not {better!r}')
    if len(values) < FEWEST:
        return CurveVerdict(False, f"There are {len(values)} evaluations with a number, and the rule needs {FEWEST}.")
    curve = [-value for value in values] if better == "lower" else list(values)
    window = max(SMALLEST_WINDOW, len(curve) // 3)
    earlier, last = curve[:-window], curve[-window:]
    best_before, best = max(earlier), max(curve)
    gain = best - min(curve[:3])
    if gain <= 0:
        return CurveVerdict(False, "The metric has not improved since the beginning.", window=window)
    gained = max(0.0, best - best_before) / gain
    said = f"the last {window} evaluations gained {gained:.1%} of all gain"
    if gained >= LEAST_GAIN:
        return CurveVerdict(False, f"It still improves: {said}.", gained=gained, window=window)
    if trend(last) >= MOST_TREND or halves(last) >= MOST_TREND:
        return CurveVerdict(False, f"It may still improve: {said}, but they still rise.", gained=gained, window=window)
    spread = noise(curve[len(curve) // 3 :])
    if gain <= LEAST_SIGNAL * spread:
        return CurveVerdict(
            False, f"Noise hides the curve: all gain is {_times(gain, spread)} the noise.", True, gained, window
        )
    return CurveVerdict(True, f"It stands still: {said}, without a trend.", gained=gained, window=window)


def trend(values: Sequence[float]) -> float:
    """Mann-Kendall's z, with its correction for ties: above zero where later values are larger."""
    count = len(values)
    sum_of_signs = 0
    seen: list[float] = []
    for place, value in enumerate(values):
        smaller = bisect_left(seen, value)
        larger = place - bisect_right(seen, value)
        sum_of_signs += smaller - larger
        insort(seen, value)
    variance = (count * (count - 1) * (2 * count + 5) - sum(t * (t - 1) * (2 * t + 5) for t in _ties(seen))) / 18
    if variance <= 0 or sum_of_signs == 0:
        return 0.0
    return (sum_of_signs - math.copysign(1, sum_of_signs)) / math.sqrt(variance)


def halves(values: Sequence[float]) -> float:
    """Mann-Whitney's z of the later half against the earlier one: above zero where the later is larger."""
    middle = len(values) // 2
    earlier, later = sorted(values[:middle]), values[middle:]
    wins = sum((bisect_left(earlier, value) + bisect_right(earlier, value)) / 2 for value in later)
    first, second = len(earlier), len(later)
    both = first + second
    ties = sum(t**3 - t for t in _ties(sorted(values)))
    variance = first * second / 12 * ((both + 1) - ties / (both * (both - 1)))
    return (wins - first * second / 2) / math.sqrt(variance) if variance > 0 else 0.0


def noise(values: Sequence[float]) -> float:
    """The spread of a value around the curve: from the differences of neighbours, whose outliers do not count."""
    differences = [after - before for before, after in zip(values, values[1:])]
    if not differences:
        return 0.0
    middle = median(differences)
    return 1.4826 * median(abs(one - middle) for one in differences) / math.sqrt(2)


def _ties(ordered: Sequence[float]) -> list[int]:
    sizes: list[int] = []
    for place, value in enumerate(ordered):
        if place and value == ordered[place - 1]:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return [size for size in sizes if size > 1]


def _times(gain: float, spread: float) -> str:
    return f"{gain / spread:.1f} times" if spread else "no multiple of"
