"""Estimates the rest of a training: hours of running, with their range, from where it stood at moments so far.

Time counts within a run alone: what a preemption, a queue or a start takes is no time of the training. Evaluations,
saves and slow epochs are in it, since they come again. Nothing is said where the total or the speed is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

LEAST_INTERVALS = 3  # between marks, before anything is said
LEAST_S = 60.0
_BLOCKS = 24
_RECENT = 3  # the last of so many parts counts as recent
_FLOOR = 0.02  # of the hours: no range is narrower
_YOUNG = 0.3  # over the root of the intervals: of a training that has shown little of itself
_SPREADS = 2.0


class Mark(NamedTuple):
    """The position of a training. `run` grows with each start; `done` is in steps, batches or epochs."""

    run: int
    at_s: float
    done: float


class TrainingLeft(NamedTuple):
    """`steps_left` in the unit of the marks. Hours of running: nine of ten trainings end between low and high."""

    steps_left: float
    low_h: float
    likely_h: float
    high_h: float


def left(marks: Sequence[Mark], total: float | None) -> TrainingLeft | None:
    """Estimates the time left; None where it is unknown: without a total, beyond the total, or before there is a speed.

    Marks in their order.
    """
    if total is None or not marks or not math.isfinite(total):
        return None
    steps_left = total - marks[-1].done
    if steps_left < 0:
        return None  # the total was not one
    if steps_left == 0:
        return TrainingLeft(0.0, 0.0, 0.0, 0.0)
    intervals = _intervals(marks)
    seconds = sum(span for span, _ in intervals)
    steps = sum(done for _, done in intervals)
    if len(intervals) < LEAST_INTERVALS or seconds < LEAST_S or steps <= 0:
        return None
    paces = _blocks(intervals, min(_BLOCKS, len(intervals)))
    recent = paces[-max(1, len(paces) // _RECENT) :]
    whole, late = sum(paces) / len(paces), sum(recent) / len(recent)
    pace = (whole + late) / 2
    return _ranged(steps_left, pace, abs(late - whole) / pace, paces, steps)


def _ranged(steps_left: float, pace: float, drift: float, paces: list[float], steps: float) -> TrainingLeft:
    """The range holds the spread of the pace so far, over what is left, and how far the pace has drifted."""
    count, mean = len(paces), sum(paces) / len(paces)
    spread = math.sqrt(sum((one - mean) ** 2 for one in paces) / max(1, count - 1)) / pace
    blocks_left = max(1.0, count * steps_left / steps)
    share = _FLOOR + _YOUNG / count + _SPREADS * spread * math.sqrt(1 / count + 1 / blocks_left) + drift
    likely_h = steps_left * pace / 3600
    return TrainingLeft(steps_left, likely_h / (1 + share), likely_h, likely_h * (1 + share))


def _intervals(marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Seconds and steps from each mark to the next of its run, without the first of each run, when it warms up."""
    intervals: list[tuple[float, float]] = []
    before: Mark | None = None
    of_run: list[tuple[float, float]] = []
    for mark in marks:
        if before is None or mark.run != before.run:
            intervals += _warm(of_run)
            of_run = []
        elif mark.done >= before.done and mark.at_s > before.at_s:
            of_run.append((mark.at_s - before.at_s, mark.done - before.done))
        before = mark
    return intervals + _warm(of_run)


def _warm(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return intervals[1:] if len(intervals) > 2 * LEAST_INTERVALS else intervals


def _blocks(intervals: list[tuple[float, float]], count: int) -> list[float]:
    """Seconds a step, in blocks of equally many steps; within an interval the pace is even."""
    size = sum(steps for _, steps in intervals) / count
    paces: list[float] = []
    seconds, room, waiting = 0.0, size, 0.0
    for span, steps in intervals:
        if steps == 0:
            waiting += span  # it evaluated or saved: that belongs to the steps that follow
            continue
        span, rest = span + waiting, steps
        waiting = 0.0
        while rest >= room and len(paces) < count:
            seconds += span * room / steps
            paces.append(seconds / size)
            rest -= room
            seconds, room = 0.0, size
        seconds += span * rest / steps
        room -= rest
    if len(paces) < count:
        paces.append(seconds / max(size - room, size * 1e-9)) if size - room > size / 2 else None
    return paces
