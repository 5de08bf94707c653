"""The metric of a job: the last and the best value that its command printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from math import isfinite

LOWER, HIGHER = "lower", "higher"
_LOWER = re.compile(
    r"loss|error|perplexity|ppl|\bwer\b|\bcer\b|\bm[as]e\b|rmse|\bfid\b|\bnll\b|\bbp[bd]\b", re.IGNORECASE
)
_HIGHER = re.compile(r"acc|f1|auc|\bmap|iou|dice|bleu|rouge|score|psnr|ssim|recall|precision|reward", re.IGNORECASE)


def better_of(name: str) -> str | None:
    """Returns the better direction of a metric by its usual names; None: it is not known."""
    if _LOWER.search(name):
        return LOWER
    return HIGHER if _HIGHER.search(name) else None


@dataclass(frozen=True, slots=True)
class MetricValue:
    """`text` is the number as Python writes it, such as 0.3417 or nan; `step` is the last that was known by then."""

    text: str
    step: int | None
    at: datetime

    @property
    def value(self) -> float | None:
        """The number; None where it is not finite."""
        number = float(self.text)
        return number if isfinite(number) else None


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The checkpoint with the best value of the metric, by the last evaluation that was not after its step.

    The agent keeps it next to the newest ones. `place` is its address, `text` the value as Python writes it.
    """

    place: str
    step: int
    text: str


@dataclass(frozen=True, slots=True)
class SeenMetric:
    """`better` is "lower" or "higher". `best` is None before the first finite value, `kept` while none is known."""

    better: str
    last: MetricValue
    best: MetricValue | None = None
    kept: BestCheckpoint | None = None

    def then(self, later: SeenMetric) -> SeenMetric:
        """Both together; of equal values the earlier is the best."""
        best = _best(later.better, self.best, later.best)
        return SeenMetric(later.better, later.last, best, later.kept or self.kept)


def _best(better: str, first: MetricValue | None, second: MetricValue | None) -> MetricValue | None:
    finite = [one for one in (first, second) if one is not None and one.value is not None]
    pick = max if better == HIGHER else min
    return pick(finite, key=lambda one: one.value or 0.0, default=None)
