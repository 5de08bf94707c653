"""Preemption drills: notices on purpose, and what a job's command made of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class DrillState(StrEnum):
    """The state of a drill; the first three are the agent's phases."""

    WAITING = "waiting"  # for a moment at which little is at stake
    STOPPING = "stopping"  # the command has its notice
    RESUMING = "resuming"  # the command was started again
    OVER = "over"


class DrillResult(StrEnum):
    SAVED = "saved"
    TOO_LATE = "too_late"  # complete, but after Google would have cut the power
    TORN = "torn"  # it wrote something that is not complete
    NEVER = "never"
    OLD = "old"  # complete, but of a step before the notice
    NOT_RESUMED = "not_resumed"  # saved, and the command did not go on from it
    INTERRUPTED = "interrupted"  # its VM ended, or the job was stopped: it shows nothing
    NOT_HELD = "not_held"  # the job ended before there was a moment for it


SHOWS_NOTHING = frozenset({DrillResult.INTERRUPTED, DrillResult.NOT_HELD})


@dataclass(frozen=True, slots=True)
class Drill:
    """`number` counts the drills of its job from 1. Spans are from the notice, `resumed` from the start after it."""

    job_id: str
    number: int
    requested_at: datetime
    requested_by: str
    state: DrillState = DrillState.WAITING
    result: DrillResult | None = None  # None: not known yet
    attempt_id: int | None = None  # None: no agent has taken it up
    began_at: datetime | None = None
    ended_at: datetime | None = None  # when its result was known
    grace: timedelta | None = None  # from SIGTERM until a preempted command is killed
    saved: timedelta | None = None  # until a checkpoint was complete
    uploaded: timedelta | None = None  # until it was at the location, where it travels
    resumed: timedelta | None = None
    goes_on: str = ""  # "yes", "no" or "unknown", where that was looked for
    checkpoint: str = ""
    step: int | None = None  # of that checkpoint
    step_before: int | None = None  # of the newest one before the notice
    why: str = ""  # why it is not complete
    was_killed: bool = False  # the command did not end by itself

    @property
    def is_over(self) -> bool:
        return self.state is DrillState.OVER

    @property
    def is_saved(self) -> bool | None:
        """Says whether a save was complete in time; None where this shows nothing, or not yet."""
        if self.result is None or self.result in SHOWS_NOTHING:
            return None
        return self.result in (DrillResult.SAVED, DrillResult.NOT_RESUMED)


@dataclass(frozen=True, slots=True)
class SavedOnNotice:
    """Counts the notices on which a job's command saved, in drills and in preemptions that were announced."""

    saved: int = 0
    times: int = 0
    drills: int = 0  # of `times`
    save: str = ""  # whether a save fits in the notice of a preemption; "" where it is not known

    @property
    def text(self) -> str:
        """`saved on notice 3 of 5 times`; empty where it never had one."""
        times = "time" if self.times == 1 else "times"
        return f"saved on notice {self.saved} of {self.times} {times}" if self.times else ""


def seconds_text(span: timedelta) -> str:
    """`3.2 s`, `41 s`."""
    seconds = span / timedelta(seconds=1)
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def in_words(drill: Drill) -> str:
    """Returns the result of a drill as one sentence without a full stop."""
    name = f"{drill.checkpoint} " if drill.checkpoint else ""
    took = drill.saved if drill.uploaded is None else drill.uploaded
    after = f" after {seconds_text(took)}" if took is not None else ""
    grace = f" of {seconds_text(drill.grace)}" if drill.grace is not None else ""
    step = f" at step {drill.step:,}" if drill.step is not None else ""
    then = _goes_on(drill)
    match drill.result:
        case None:
            return _STANDING[drill.state]
        case DrillResult.SAVED | DrillResult.NOT_RESUMED:
            return f"{name}was saved{step} on the notice{after}{grace}{then}"
        case DrillResult.TOO_LATE if drill.uploaded is None and _is_in_time(drill):
            return f"{name}was saved{step}{after}, and its upload had not ended in time{then}"
        case DrillResult.TOO_LATE:
            late = f", {seconds_text(took)} after the notice" if took is not None else ""
            return f"{name}was saved{step} too late{late}{then}"
        case DrillResult.TORN:
            why = f" ({drill.why.rstrip('.')})" if drill.why else ""
            return f"{name}was left incomplete{why}{then}"
        case DrillResult.OLD:
            return f"{name}was saved on the notice{step}, which is older work than was done{then}"
        case DrillResult.NEVER:
            ignored = "; the command did not end by itself" if drill.was_killed else ""
            return f"nothing was saved on the notice{ignored}{then}"
        case DrillResult.INTERRUPTED:
            return "it was interrupted, and shows nothing"
    return "the job ended before there was a moment for it"


_STANDING = {
    DrillState.WAITING: "it waits for a moment at which little is at stake, right after a checkpoint or the start",
    DrillState.STOPPING: "the command has its notice",
    DrillState.RESUMING: "the command was started again",
    DrillState.OVER: "its result is not known",
}


def _is_in_time(drill: Drill) -> bool:
    return drill.saved is not None and drill.grace is not None and drill.saved <= drill.grace


def _goes_on(drill: Drill) -> str:
    match drill.goes_on:
        case "yes":
            took = f" {seconds_text(drill.resumed)} after its start" if drill.resumed is not None else ""
            return f"; the command went on{took}"
        case "no":
            return "; started again, the command did not go on from it"
        case "unknown":
            return "; whether the command went on is not known, because it prints no steps"
    return ""


def counted(drills: Sequence[Drill], preemptions: Sequence[bool]) -> SavedOnNotice:
    """`preemptions` says of each announced one whether a checkpoint was complete after its notice."""
    shown = [drill.is_saved for drill in drills if drill.is_saved is not None]
    return SavedOnNotice(sum(shown) + sum(preemptions), len(shown) + len(preemptions), len(shown))
