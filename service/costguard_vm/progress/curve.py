"""Judges whether a metric still improves: a hint for people, never a reason to act.

The rule and how it was measured: `service/docs/progress.md`. It speaks where the end of the curve brought next to
nothing and shows no trend. How long that end must be depends on how clearly the curve stands out from its noise; where
it hardly does, it says that noise hides it. Pure. Travels with the agent.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from statistics import median
from typing import NamedTuple, Sequence

SMALLEST_WINDOW = 6


class Demand(NamedTuple):
    """The demands on a curve, from `signal` on: all gain of the smoothed curve, in units of the noise."""

    signal: float
    fewest: int  # evaluations before it says anything
    share: int  # the window is one part of so many of all evaluations
    gain: float  # of all gain so far, which the window must bring to count as progress
    trend: float  # in standard deviations, of Mann-Kendall's test
    errors: float  # standard errors that are added to the window's slope...
    outlook: float  # ...which, over as many evaluations as there were, must not bring so much of all gain


CLEAR = Demand(signal=15.0, fewest=20, share=3, gain=0.005, trend=0.3, errors=2.0, outlook=0.05)
NOISY = Demand(signal=8.0, fewest=36, share=2, gain=0.01, trend=0.3, errors=1.5, outlook=0.2)
FEWEST = CLEAR.fewest


class CurveVerdict(NamedTuple):
    """`stands_still` with its reason. Shares are of all gain so far."""

    stands_still: bool
    reason: str
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
    """Judges all evaluations so far, the oldest first. `better` is "lower" or "higher"."""
    if better not in ("lower", "higher"):
        raise ValueError(f'better must be "lower" or "higher", not {better!r}')
    values = once_each(values)
    if len(values) < FEWEST:
        return CurveVerdict(False, f"The rule needs {FEWEST} evaluations with a number, and has {len(values)}.")
    curve = [-value for value in values] if better == "lower" else list(values)
    gain = max(curve) - min(curve[:3])
    if gain <= 0:
        count, is_long = len(curve), len(curve) >= NOISY.fewest
        said = f"It stands still: in {count}" if is_long else f"In {count}"
        return CurveVerdict(is_long, f"{said} evaluations the metric has not improved once.", gained=0.0, window=count)
    even = smoothed(curve)
    risen, spread = max(even) - min(even[:3]), noise(curve[len(curve) // 3 :])
    if risen <= NOISY.signal * spread:
        said = f"Noise hides the curve: all gain is {_times(risen, spread)} the noise."
        return CurveVerdict(False, said)
    return _by(CLEAR if risen > CLEAR.signal * spread else NOISY, curve, gain)


def _by(demand: Demand, curve: Sequence[float], gain: float) -> CurveVerdict:
    window = max(SMALLEST_WINDOW, len(curve) // demand.share)
    gained = max(0.0, max(curve) - max(curve[:-window])) / gain
    said = f"the last {window} evaluations gained {gained:.1%} of all gain"
    if len(curve) < demand.fewest:
        why = f"The curve is noisy: there are {len(curve)} evaluations, and the rule then needs {demand.fewest}."
        return CurveVerdict(False, why, gained=gained, window=window)
    if gained >= demand.gain:
        return CurveVerdict(False, f"It still improves: {said}.", gained=gained, window=window)
    last = curve[-window:]
    steepness, error = slope(last)
    outlook = (steepness + demand.errors * error) * len(curve) / gain
    if trend(last) >= demand.trend or outlook >= demand.outlook:
        return CurveVerdict(False, f"It may still improve: {said}, but they may rise.", gained=gained, window=window)
    return CurveVerdict(True, f"It stands still: {said}, without a trend.", gained=gained, window=window)


def once_each(values: Sequence[float]) -> Sequence[float]:
    """Returns each evaluation once, for a program of which every rank prints it.

    Most neighbours are equal then. What is repeated more than twice as often as any value before stands still.
    """
    if 2 * sum(before == after for before, after in zip(values, values[1:])) < len(values) - 1:
        return values
    rows: list[list[float]] = []
    for value in values:
        if rows and rows[-1][0] == value:
            rows[-1].append(value)
        else:
            rows.append([value])
    longest = max((len(row) for row in rows[:-1]), default=0)
    last = rows[-1] if len(rows[-1]) > 2 * longest else rows[-1][:1]
    return [*(row[0] for row in rows[:-1]), *last]


def smoothed(values: Sequence[float]) -> list[float]:
    """The running median of five."""
    return [median(values[max(0, place - 2) : place + 3]) for place in range(len(values))]


def slope(values: Sequence[float]) -> tuple[float, float]:
    """Returns the slope of the least squares' line, for one evaluation, and its standard error."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    squares = count * (count * count - 1) / 12
    steepness = sum((place - middle) * (value - mean) for place, value in enumerate(values)) / squares
    rest = sum((value - mean - steepness * (place - middle)) ** 2 for place, value in enumerate(values))
    return steepness, math.sqrt(rest / (count - 2) / squares)


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
