"""The runs: kinds of models and planted causes, in two halves. The first chose the thresholds.

Strengths differ, so that some planted causes bind hardly or not at all; what binds is found by intervention.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

NAMES = ("resnet", "vit", "gpt", "embedding")  # of models.py, which needs PyTorch


@dataclass(frozen=True)
class PlannedRun:
    """`half` is 1 where it chose thresholds, and 2 where it was looked at once."""

    name: str
    half: int
    settings: dict[str, Any]


# Cause, workers, and the time that it takes, in steps of the device, for the four kinds in turn.
_FIRST = (
    ("resident", 0, (0.0, 0.0, 0.0, 0.0)),
    ("decode", 0, (1.5, 0.6, 2.5, 1.0)),
    ("decode", 1, (2.2, 0.5, 1.5, 3.0)),
    ("sleep", 1, (3.0, 1.6, 0.5, 2.2)),
    ("decode", 4, (6.0, 4.0, 5.0, 3.0)),
    ("disk", 1, (2.0, 3.0, 1.5, 2.5)),
    ("host", 0, (2.0, 1.5, 3.0, 0.5)),
    ("item", 0, (0.6, 1.2, 0.8, 2.0)),
    ("launches", 0, (1.8, 2.5, 1.5, 3.0)),
    ("checkpoint", 0, (0.8, 1.5, 2.0, 1.0)),
)
_SECOND = (
    ("resident", 0, (None, 0.0, None, 0.0)),
    ("decode", 0, (0.7, 2.0, 1.2, 1.6)),
    ("decode", 1, (0.6, 2.8, 2.4, 1.8)),
    ("sleep", 1, (1.4, 2.6, 3.5, 0.4)),
    ("disk", 1, (1.2, None, 2.5, None)),
    ("host", 0, (2.6, None, 0.4, 1.8)),
    ("item", 0, (1.5, 0.8, None, 1.0)),
    ("launches", 0, (3.0, None, 2.5, None)),
    ("checkpoint", 0, (None, 0.8, None, 2.0)),
)


def _planned() -> Iterator[PlannedRun]:
    for half, causes in ((1, _FIRST), (2, _SECOND)):
        for cause, workers, ratios in causes:
            for kind, ratio in zip(NAMES, ratios, strict=True):
                if ratio is not None:
                    where = f" in {workers} worker{'s' * (workers > 1)}" if workers else ""
                    settings = {"kind": kind, "cause": cause, "workers": workers, "ratio": ratio}
                    yield PlannedRun(f"{kind}, {cause}{where}, {ratio:g}", half, settings)


PLANS = tuple(_planned())


def _on_a_gpu() -> Iterator[PlannedRun]:
    """Four minutes each: what a step of a GPU can be bound by, in addition to what stands above."""
    more: tuple[dict[str, Any], ...] = (
        {"cause": "resident", "scale": 8.0, "batch": 256},
        {"cause": "resident", "scale": 8.0, "batch": 256, "half": True},
        {"cause": "resident", "scale": 8.0, "batch": 1},
        {"cause": "decode", "workers": 0, "batch": 64},
        {"cause": "decode", "workers": 1, "ratio": 3.0, "batch": 64},
        {"cause": "decode", "workers": 4, "ratio": 6.0, "batch": 64},
        {"cause": "decode", "workers": 12, "ratio": 6.0, "batch": 64},
        {"cause": "sleep", "workers": 2, "ratio": 1.0, "batch": 64},
        {"cause": "sleep", "workers": 2, "ratio": 4.0, "batch": 64},
        {"cause": "item", "ratio": 0.5, "batch": 64},
        {"cause": "launches", "ratio": 2.0, "batch": 64},
        {"cause": "checkpoint", "ratio": 0.5, "batch": 64},
    )
    for row, settings in enumerate(more):
        for column, kind in enumerate(NAMES):
            wanted = {"kind": kind, "scale": 4.0, "seconds": 120.0, "check_s": 20.0, **settings}
            name = ", ".join([kind, *(f"{key} {value}" for key, value in settings.items())])
            yield PlannedRun(name, 1 + (row + column) % 2, wanted)


PLANS_OF_A_GPU = tuple(_on_a_gpu())
