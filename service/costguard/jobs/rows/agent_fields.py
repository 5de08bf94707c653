"""Reads what agents report of activity, drills, hangs, progress and transfers, and converts it for columns. Pure.

A VM may report anything: texts are cut, numbers bounded, and what is not understood is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import TypeAlias

from pydantic import TypeAdapter

from costguard.jobs.decide.profile.job_profile import ProfileWindow
from costguard.model.data import DataTransfer, TransferState
from costguard.model.reported.drill import DrillResult, DrillState
from costguard.model.reported.hang import KINDS, PHASES, Hang
from costguard.model.reported.progress import EVALUATION, LOSS, NAMED, POSITION, UNITS, SeenProgress, SeriesPoint
from costguard_vm.diagnosis.advice import advise
from costguard_vm.diagnosis.bounds import judge
from costguard_vm.diagnosis.kinds import BoundVerdict
from costguard_vm.diagnosis.signals import Minute, read_minute
from costguard_vm.diagnosis.window import ENOUGH_S, MINUTES, window_of
from costguard_vm.profile.window import read_profile

Moment: TypeAlias = Callable[[object], datetime]
"""Reads a time by the guard's clock."""

MOST_WINDOWS = 20  # of profiles, in one request
MOST_MINUTES = 60  # of one request, and those of an attempt that are kept
_WARM_UP = timedelta(minutes=2)  # of a run that reports steps: compilers and caches
_NO_STEPS = timedelta(minutes=10)  # of one that reports none
_GAP = timedelta(minutes=3)  # between minutes of one window

_LONGEST_WHY = 300  # characters
_LONGEST_DRILL_S = 1e7
_RESULTS = {one.value: one for one in (*DrillResult,) if one not in (DrillResult.NOT_RESUMED, DrillResult.NOT_HELD)}
_GOES_ON = frozenset({"yes", "no", "unknown"})

_HANG = TypeAdapter(Hang)
_MOST_WAITS = 8
_LONGEST_WAIT = 100  # characters
_LONGEST_STACKS = 8 << 10
_LONGEST_HANG_S = 1e8

MOST_POINTS = 64  # of one event
MOST_METRICS = 20
_LONGEST_NAME = 100
_MOST_COUNT = 10**15
_WORDS = {"nan", "inf", "-inf"}  # how JSON carries what is not finite
_SEEN = TypeAdapter(SeenProgress)

MOST_TRANSFERS = 100  # of one attempt that are kept
_LONGEST_ADDRESS = 2000  # characters
_STATES = {state.value: state for state in TransferState}

_MOST_WHOLE = 2**63 - 1
_MOST = 1e300


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


def profile_window_of(run: int, fields: Mapping[str, object], at: datetime) -> ProfileWindow | None:
    """Reads a window of an event `profile`; None where it is not understood."""
    number, profile = _whole(fields.get("number")), read_profile(fields.get("window"))
    return None if number is None or profile is None else ProfileWindow(run, number, at, profile)


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


@dataclass(frozen=True, slots=True)
class DrillReport:
    """The state of a drill, by its agent."""

    number: int
    state: DrillState
    result: DrillResult | None
    began_at: datetime | None
    grace: timedelta | None
    saved: timedelta | None
    uploaded: timedelta | None
    resumed: timedelta | None
    goes_on: str
    checkpoint: str
    step: int | None
    step_before: int | None
    why: str
    was_killed: bool


def drill_report(fields: Mapping[str, object], moment: Moment) -> DrillReport | None:
    """Reads a report of a drill; None where it is not understood."""
    number, phase = _whole(fields.get("number"), 2**31 - 1), fields.get("phase")
    if not number or phase not in {state.value for state in DrillState}:
        return None
    state, goes_on = DrillState(str(phase)), fields.get("resumed")
    result = _RESULTS.get(_text(fields.get("result"), _LONGEST_WHY)) if state is DrillState.OVER else None
    if state is DrillState.OVER and result is None:
        return None
    if result is DrillResult.SAVED and goes_on == "no":
        result = DrillResult.NOT_RESUMED
    return DrillReport(
        number=number,
        state=state,
        result=result,
        began_at=moment(fields["began_at"]) if isinstance(fields.get("began_at"), str) else None,
        grace=_span(fields.get("grace_s"), _LONGEST_DRILL_S),
        saved=_span(fields.get("saved_s"), _LONGEST_DRILL_S),
        uploaded=_span(fields.get("uploaded_s"), _LONGEST_DRILL_S),
        resumed=_span(fields.get("resumed_s"), _LONGEST_DRILL_S),
        goes_on=str(goes_on) if goes_on in _GOES_ON else "",
        checkpoint=_text(fields.get("name"), _LONGEST_WHY),
        step=_whole(fields.get("saved_step")),
        step_before=_whole(fields.get("step_before")),
        why=_text(fields.get("why"), _LONGEST_WHY),
        was_killed=fields.get("was_killed") is True,
    )


def hang_of(before: Hang | None, fields: Mapping[str, object], moment: Moment) -> Hang | None:
    """Reads a heartbeat's hang; None where it makes progress. A hang that goes on began when it was first reported."""
    seen = fields.get("hang")
    if not isinstance(seen, Mapping):
        return None
    kind, phase, bound = seen.get("kind"), seen.get("phase"), _span(seen.get("bound_s"), _LONGEST_HANG_S)
    if kind not in KINDS or phase not in PHASES or bound is None:
        return None
    waits = seen.get("waits")
    return Hang(
        since=moment(seen.get("since")) if before is None else before.since,
        kind=str(kind),
        phase=str(phase),
        bound=bound,
        step=_whole(seen.get("step")),
        usual=_span(seen.get("usual_s"), _LONGEST_HANG_S),
        longest=_span(seen.get("longest_s"), _LONGEST_HANG_S),
        cores=_figure(seen.get("cores")),
        gpu=_figure(seen.get("gpu")),
        is_writing=seen["is_writing"] if isinstance(seen.get("is_writing"), bool) else None,
        waits=tuple(one[:_LONGEST_WAIT] for one in waits[:_MOST_WAITS] if isinstance(one, str))
        if isinstance(waits, list)
        else (),
        stacks=_text(seen.get("stacks"), _LONGEST_STACKS),
    )


def hang_column(hang: Hang | None) -> object:
    """Converts a hang for its column."""
    return None if hang is None else _HANG.dump_python(hang, mode="json")


def hang_of_column(value: object) -> Hang | None:
    return None if value is None else _HANG.validate_python(value)


def progress_of(reported: object, moment: Moment) -> SeenProgress | None:
    """The field `progress` of a heartbeat or an exit; None where there is none."""
    if not isinstance(reported, Mapping):
        return None
    unit, done = _position(reported)
    metrics = reported.get("metrics")
    return SeenProgress(
        read_at=moment(reported.get("read_at")),
        phase="eval" if reported.get("phase") == "eval" else "train",
        unit=unit,
        done=done,
        end=_figure(reported.get("of"), _MOST_COUNT) if unit is not None else None,
        per_second=_figure(reported.get("steps_per_s"), _MOST_COUNT),
        epoch=_figure(reported.get("epoch"), _MOST_COUNT),
        epoch_total=_whole(reported.get("epoch_total"), _MOST_COUNT),
        batch=_whole(reported.get("batch"), _MOST_COUNT),
        batch_total=_whole(reported.get("batch_total"), _MOST_COUNT),
        loss=_number_text(reported.get("loss")),
        metrics=dict(_metrics(metrics)) if isinstance(metrics, Mapping) else {},
    )


def progress_column(progress: SeenProgress | None) -> dict[str, object] | None:
    """Converts progress for its column; `progress_of_column` reads it again."""
    return None if progress is None else _SEEN.dump_python(progress, mode="json")


def progress_of_column(column: object) -> SeenProgress | None:
    return None if column is None else _SEEN.validate_python(column)


def points_of(run: int, reported: object, moment: Moment) -> list[SeriesPoint]:
    """Reads the points of an event `progress`, by series."""
    if not isinstance(reported, list):
        return []
    return [
        point for one in reported[:MOST_POINTS] if isinstance(one, Mapping) for point in _of_point(run, one, moment)
    ]


def _of_point(run: int, reported: Mapping[object, object], moment: Moment) -> Iterator[SeriesPoint]:
    unit, done = _position(reported)
    at, phase = moment(reported.get("at")), reported.get("phase")

    def point(series: str, value: str | None) -> SeriesPoint:
        number = float(value) if value is not None else None
        return SeriesPoint(run, series, at, unit, done, number if number is not None and isfinite(number) else None)

    if phase == "train" and done is not None:
        yield point(POSITION, None)
    if (loss := _number_text(reported.get("loss"))) is not None:
        yield point(LOSS, loss)
    metrics = reported.get("metrics")
    for name, value in _metrics(metrics) if isinstance(metrics, Mapping) else ():
        yield point(NAMED if phase == "named" else f"{EVALUATION}{name}", value)


def _position(reported: Mapping[object, object]) -> tuple[str | None, float | None]:
    unit, done = reported.get("unit"), _figure(reported.get("done"), _MOST_COUNT)
    return (str(unit), done) if unit in UNITS and done is not None else (None, None)


def _metrics(reported: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    for name, value in list(reported.items())[:MOST_METRICS]:
        text = _number_text(value)
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and text is not None:
            yield name, text


def _number_text(value: object) -> str | None:
    """A number as Python writes it; None where it is none."""
    if isinstance(value, str):
        return value if value in _WORDS else None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return "nan" if isinstance(value, float) and value != value else None
    return repr(value)


def transfers_of(before: Sequence[DataTransfer], reported: object) -> tuple[DataTransfer, ...]:
    """Adds a heartbeat's or an exit's transfers. An agent that was started again reports its own transfers alone."""
    if not isinstance(reported, list):
        return tuple(before)
    by_key = {(one.kind, one.source, one.target): one for one in before}
    for fields in reported[:MOST_TRANSFERS]:
        if isinstance(fields, Mapping) and (one := _transfer(fields)) is not None:
            by_key[one.kind, one.source, one.target] = one
    return tuple(by_key.values())[-MOST_TRANSFERS:]


def transfers_column(transfers: Sequence[DataTransfer]) -> list[dict[str, object]]:
    """Converts transfers for their column; `transfers_of` reads them again."""
    return [{name: getattr(one, name) for name in DataTransfer.__slots__} for one in transfers]


def _transfer(fields: Mapping[object, object]) -> DataTransfer | None:
    state = _STATES.get(str(fields.get("state")))
    kind, source, target = (_text(fields.get(name), _LONGEST_ADDRESS) for name in ("kind", "source", "target"))
    if state is None or not kind:
        return None
    return DataTransfer(
        kind=kind,
        source=source,
        target=target,
        state=state,
        bytes_done=_floor(fields.get("bytes_done")),
        bytes_total=_floor(fields.get("bytes_total")),
        files_done=_floor(fields.get("files_done")),
        files_total=_floor(fields.get("files_total")),
        bytes_per_s=_floor(fields.get("bytes_per_s")),
        seconds=_floor(fields.get("seconds")),
        error=_text(fields.get("error"), _LONGEST_ADDRESS),
        note=_text(fields.get("note"), _LONGEST_ADDRESS),
        from_source=_floor(fields.get("from_source")),
    )


def _text(value: object, longest: int) -> str:
    return value[:longest] if isinstance(value, str) else ""


def _whole(value: object, most: int = _MOST_WHOLE) -> int | None:
    return value if type(value) is int and 0 <= value <= most else None


def _floor(value: object) -> int | None:
    return _whole(int(value) if isinstance(value, float) and isfinite(value) else value)


def _figure(value: object, most: float = _MOST) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= most else None  # type: ignore[arg-type, operator]


def _span(value: object, longest_s: float) -> timedelta | None:
    """Reads seconds, to a thousandth."""
    seconds = _figure(value, longest_s)
    return None if seconds is None else timedelta(milliseconds=round(seconds * 1000))
