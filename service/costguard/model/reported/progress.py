"""A training's progress as its agent reports it: where it stands, and the points of its curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

# Series of points. Those of evaluations are named EVALUATION and what the output calls them.
POSITION, LOSS, NAMED, EVALUATION = "position", "loss", "metric", "eval:"
UNITS = ("epoch", "batch", "step")  # the surest last


@dataclass(frozen=True, slots=True)
class SeenProgress:
    """The progress that was read last. Numbers of metrics are texts as Python writes them, "nan" and "inf" included.

    `done` and `end` count `unit`: steps, batches over all epochs, or epochs. None is unknown.
    """

    read_at: datetime
    phase: str  # "train" or "eval"
    unit: str | None = None
    done: float | None = None
    end: float | None = None
    per_second: float | None = None
    epoch: float | None = None
    epoch_total: int | None = None
    batch: int | None = None
    batch_total: int | None = None
    loss: str | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """A value of a series; `value` is None where it is not finite, and in the series of positions."""

    run: int
    series: str
    at: datetime
    unit: str | None
    done: float | None
    value: float | None
    attempt_id: int = 0  # 0: it is not stored yet

    @property
    def start(self) -> tuple[int, int]:
        """The start of the command that it belongs to; starts sort by their order."""
        return self.attempt_id, self.run
