"""Judges a drill's saves and the run after it. Pure."""

from __future__ import annotations

from typing import NamedTuple, Sequence

FEW = 3  # readings of a step that decide whether a run began at zero
SKIPS = 3  # times as fast as it trains: a run that goes over batches which it has seen already
SAVED, TOO_LATE, TORN, NEVER, OLD, INTERRUPTED = "saved", "too_late", "torn", "never", "old", "interrupted"


class Save(NamedTuple):
    """A checkpoint that was written after the notice. Seconds count from it; None: not by the time it was looked at."""

    name: str
    step: int | None
    complete_s: float | None = None
    uploaded_s: float | None = None
    why: str = ""  # why it is not complete


class DrillLimits(NamedTuple):
    """The time by which a save is complete and uploaded before Google cuts the power; `uploads` is false without an
    upload.
    """

    complete_s: float
    uploaded_s: float
    uploads: bool


class Steps(NamedTuple):
    """`before` is the step of the newest checkpoint before the notice. The other two are the command's own, after that
    checkpoint and at the notice. None: not known."""

    before: int | None
    first: int | None
    last: int | None


def is_old(step: int | None, steps: Steps) -> bool:
    """Says whether a checkpoint of this step, written after the notice, holds less than what was done by then.

    A command may count its steps otherwise than its checkpoints do, as with gradient accumulation: then only the
    checkpoints are compared with each other.
    """
    if step is None or steps.before is None:
        return False
    if step < steps.before:
        return True
    if steps.first is None or steps.last is None or steps.last <= steps.first:
        return False
    is_same_count = steps.before - 1 <= steps.first <= 1.2 * steps.before + 1
    return step == steps.before or (is_same_count and step < steps.last - 1)


def judged(saves: Sequence[Save], limits: DrillLimits, steps: Steps) -> tuple[str, Save | None]:
    """The result, and the save that it rests on."""
    fresh = [save for save in saves if save.complete_s is not None and not is_old(save.step, steps)]
    late = [save for save in fresh if limits.uploads and save.uploaded_s is None]
    timed = [(_end(save, limits), save) for save in fresh if save not in late]
    if timed:
        seconds, best = min(timed, key=lambda pair: pair[0])
        is_timely = seconds <= (limits.uploaded_s if limits.uploads else limits.complete_s)
        return (SAVED if is_timely else TOO_LATE), best
    if late:
        return TOO_LATE, late[0]
    old = [save for save in saves if save.complete_s is not None]
    if old:
        return OLD, old[0]
    return (TORN, saves[-1]) if saves else (NEVER, None)


def _end(save: Save, limits: DrillLimits) -> float:
    return (save.uploaded_s if limits.uploads else save.complete_s) or 0.0


def goes_on(readings: Sequence[tuple[float, int]], wanted: int | None, speed: float | None) -> bool | None:
    """Says whether a run that was started again goes on from where it was; None: its steps do not show that yet.

    `wanted` is the step that it should have, and `speed` its steps a second before. A trainer may count up from zero
    over the batches that it skips, much faster than it trains.
    """
    if wanted is None or not readings:
        return None
    (began, first), (now, last) = readings[0], readings[-1]
    if first >= wanted:
        return True
    took = max(now - began, 1e-3)
    is_skipping = speed is not None and (last - first) / took > SKIPS * speed
    if last >= wanted:
        return is_skipping
    return False if len(readings) >= FEW and not is_skipping else None
