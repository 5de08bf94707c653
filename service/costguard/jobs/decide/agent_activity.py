"""Activity as an agent reports it, a minute at a time, and the windows that are judged. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard_vm.diagnosis.advice import advise
from costguard_vm.diagnosis.bounds import judge
from costguard_vm.diagnosis.kinds import BoundVerdict
from costguard_vm.diagnosis.signals import Minute, read_minute
from costguard_vm.diagnosis.window import ENOUGH_S, MINUTES, window_of

MOST = 60  # minutes of one request, and those of an attempt that are kept
_WARM_UP = timedelta(minutes=2)  # of a run that reports steps: compilers and caches
_NO_STEPS = timedelta(minutes=10)  # of one that reports none
_GAP = timedelta(minutes=3)  # between minutes of one window


@dataclass(frozen=True, slots=True)
class MeasuredMinute:
    """`at` is its end, by the guard's clock. `step` is the last that was known by then."""

    run: int
    at: datetime
    minute: Minute
    step: int | None = None
    step_at: datetime | None = None
    is_judged: bool = False


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """`steps` were made in `step_span`; None: not known. `advice` is one line, or empty."""

    since: datetime
    until: datetime
    verdict: BoundVerdict
    advice: str
    steps: int | None = None
    step_span: timedelta | None = None


@dataclass(frozen=True, slots=True)
class BoundStretch:
    """Consecutive windows with the same verdict. `share` is their mean, the numbers are the last window's."""

    job_id: str
    attempt_id: int
    run: int
    since: datetime
    until: datetime
    windows: int
    verdict: BoundVerdict
    advice: str
    steps: int | None
    step_span: timedelta | None
    id: int | None = None

    @property
    def holds(self) -> bool:
        """Two equal ones, before anything is said of it."""
        return self.windows >= 2

    @property
    def steps_per_s(self) -> float | None:
        return None if not self.steps or not self.step_span else self.steps / self.step_span.total_seconds()


def minute_of(fields: Mapping[str, object]) -> Minute | None:
    """Reads the minute of an event `activity`."""
    return read_minute(fields.get("minute"))


def is_warm(minute: MeasuredMinute, started_at: datetime | None) -> bool:
    """Says whether the run is past loading and compiling by the beginning of this minute."""
    if started_at is None:
        return False
    age = minute.at - timedelta(seconds=minute.minute.seconds or 60.0) - started_at
    return age >= (_NO_STEPS if minute.step is None else _WARM_UP)


def windows(minutes: Sequence[MeasuredMinute]) -> tuple[list[JudgedWindow], list[MeasuredMinute]]:
    """Makes windows of minutes of one run that were not judged, in order; returns them, and the minutes that are too
    few yet.

    Minutes before a gap are left out: a window is of one stretch of time.
    """
    judged: list[JudgedWindow] = []
    open_ones: list[MeasuredMinute] = []
    for one in minutes:
        if open_ones and one.at - open_ones[-1].at > _GAP:
            open_ones = []
        open_ones.append(one)
        if len(open_ones) == MINUTES:
            judged += [_judged(open_ones)] if _seconds(open_ones) >= ENOUGH_S else []
            open_ones = []
    return judged, open_ones


def _seconds(minutes: Sequence[MeasuredMinute]) -> float:
    return sum(one.minute.seconds or 0.0 for one in minutes)


def _judged(minutes: Sequence[MeasuredMinute]) -> JudgedWindow:
    window = window_of([one.minute for one in minutes])
    verdict = judge(window)
    since = minutes[0].at - timedelta(seconds=minutes[0].minute.seconds or 60.0)
    stepped = [(one.step, one.step_at) for one in minutes if one.step is not None and one.step_at is not None]
    steps, span = (None, None) if not stepped else _between(stepped[0], stepped[-1])
    return JudgedWindow(since, minutes[-1].at, verdict, advise(verdict, window), steps, span)


def _between(first: tuple[int, datetime], last: tuple[int, datetime]) -> tuple[int | None, timedelta | None]:
    """Returns the steps and the time between two positions; None where it did not advance: a rewind says nothing of its
    speed.
    """
    steps, span = last[0] - first[0], last[1] - first[1]
    return (steps, span) if steps > 0 and span > timedelta() else (None, None)
