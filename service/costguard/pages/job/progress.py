"""A training's progress and its curves, as a job's page shows them.

In curves, places across are thousandths of the time from the first point to the last; down, they are pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.jobs.reports.progress.progress import CurvePoint, JobCurve, JobProgress, TimeLeft, job_progress
from costguard.model.duration import span_text
from costguard.model.money import Money
from costguard.pages.page import ShownJob

_WIDTH, _HEIGHT = 1000, 110
_MOST_CURVES = 7
_MOST_METRICS = 8
_SILENT = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class AcrossLabel:
    """A label at so many percent of the width: the time since the first point, and the job's cost by then."""

    x: float
    anchor: str
    span: str
    cost: Money | None


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """`lines` are broken where a value is not finite. `marks` are interruptions."""

    name: str
    last: str
    lowest: str
    highest: str
    lines: Sequence[str]
    marks: Sequence[int]
    labels: Sequence[AcrossLabel]
    words: str
    width: int = _WIDTH
    height: int = _HEIGHT


@dataclass(frozen=True, slots=True)
class ProgressShown:
    position: str
    share: int | None  # thousandths of the total
    speed: str
    loss: str
    metrics: Sequence[tuple[str, str]]
    left: TimeLeft | None
    why_no_end: str
    curves: Sequence[DrawnCurve]
    silent: timedelta | None  # for how long nothing was read, of a job that goes on


def progress_of_job(shown: ShownJob) -> ProgressShown | None:
    """Returns the progress of a job; None where nothing was read of it."""
    progress = job_progress(shown.connection, shown.accrual, shown.id)
    if progress is None or progress.seen is None:
        return None
    seen, unit = progress.seen, progress.unit or "step"
    silent = shown.accrual.now - seen.read_at
    return ProgressShown(
        position=_position(progress, unit),
        share=_share(progress),
        speed=_speed(progress.per_second, unit) if progress.per_second is not None else "",
        loss=seen.loss or "",
        metrics=[(name, value) for name, value in seen.metrics.items() if name != "loss"][:_MOST_METRICS],
        left=progress.left,
        why_no_end=_why_no_end(progress),
        curves=[drawn for one in progress.curves[:_MOST_CURVES] if (drawn := draw(one, progress.interrupted_at))],
        silent=silent if progress.is_open and silent > _SILENT else None,
    )


def draw(curve: JobCurve, interrupted_at: Sequence[datetime]) -> DrawnCurve | None:
    """Draws a curve; None with fewer than two values."""
    values = [point.value for point in curve.points if point.value is not None]
    begin, end = curve.points[0].at, curve.points[-1].at
    if len(values) < 2 or end <= begin:
        return None
    low, high = min(values), max(values)

    def x(moment: datetime) -> int:
        return round(_WIDTH * ((moment - begin) / (end - begin)))

    def y(value: float) -> float:
        return round(_HEIGHT * (1 - (value - low) / (high - low)), 1) if high > low else _HEIGHT / 2

    lines: list[list[str]] = [[]]
    for point in curve.points:
        if point.value is None:
            lines.append([])
        else:
            lines[-1].append(f"{x(point.at)},{y(point.value):g}")
    texts = [_number(value) for value in (low, high, values[-1])]
    return DrawnCurve(
        name=curve.name,
        last=texts[2],
        lowest=texts[0],
        highest=texts[1],
        lines=[" ".join(line if len(line) > 1 else line * 2) for line in lines if line],
        marks=[x(moment) for moment in interrupted_at if begin <= moment <= end],
        labels=_labels(curve.points),
        words=f"{curve.name} from {_number(values[0])} to {texts[2]}, between {texts[0]} and {texts[1]}.",
    )


def _labels(points: Sequence[CurvePoint]) -> list[AcrossLabel]:
    begin, whole = points[0].at, points[-1].at - points[0].at
    labels = []
    for share, anchor in ((0, "start"), (50, "middle"), (100, "end")):
        moment = begin + whole * share / 100
        cost = next((point.cost for point in points if point.at >= moment), points[-1].cost)
        labels.append(AcrossLabel(share, anchor, span_text(whole * share / 100) if share else "0", cost))
    return labels


def _position(progress: JobProgress, unit: str) -> str:
    if progress.done is None:
        return ""
    whole = f" of {progress.total:,.10g}" if progress.total is not None else ""
    return f"{unit} {progress.done:,.10g}{whole}"


def _share(progress: JobProgress) -> int | None:
    if progress.done is None or not progress.total:
        return None
    return min(1000, round(1000 * progress.done / progress.total))


def _speed(per_second: float, unit: str) -> str:
    if per_second >= 0.1:
        return f"{per_second:,.3g} {unit}s a second"
    return f"{per_second * 3600:,.3g} {unit}s an hour"


def _why_no_end(progress: JobProgress) -> str:
    if progress.left is not None or progress.done is None:
        return ""
    if progress.total is None:
        return "unknown: its output tells no total; name one with --steps"
    return "unknown until its pace is measured"


def _number(value: float) -> str:
    return f"{value:.4g}"
