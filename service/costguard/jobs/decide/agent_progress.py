"""Progress as an agent reports it. What a VM says is bounded and checked: it may report anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from math import isfinite

from pydantic import TypeAdapter

from costguard.model.progress import EVALUATION, LOSS, NAMED, POSITION, UNITS, SeenProgress, SeriesPoint

MOST_POINTS = 64  # of one event
MOST_METRICS = 20
_LONGEST_NAME = 100
_MOST_COUNT = 1e15
_WORDS = {"nan", "inf", "-inf"}  # how JSON carries what is not finite
_SEEN = TypeAdapter(SeenProgress)

Moment = Callable[[object], datetime]


def seen(reported: object, moment: Moment) -> SeenProgress | None:
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
        end=_count(reported.get("of")) if unit is not None else None,
        per_second=_count(reported.get("steps_per_s")),
        epoch=_count(reported.get("epoch")),
        epoch_total=_whole(reported.get("epoch_total")),
        batch=_whole(reported.get("batch")),
        batch_total=_whole(reported.get("batch_total")),
        loss=_text(reported.get("loss")),
        metrics=dict(_metrics(metrics)) if isinstance(metrics, Mapping) else {},
    )


def stored(progress: SeenProgress | None) -> dict[str, object] | None:
    """Converts progress for its column; `loaded` reads it again."""
    return None if progress is None else _SEEN.dump_python(progress, mode="json")


def loaded(column: object) -> SeenProgress | None:
    return None if column is None else _SEEN.validate_python(column)


def points(run: int, reported: object, moment: Moment) -> list[SeriesPoint]:
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
    if (loss := _text(reported.get("loss"))) is not None:
        yield point(LOSS, loss)
    metrics = reported.get("metrics")
    for name, value in _metrics(metrics) if isinstance(metrics, Mapping) else ():
        yield point(NAMED if phase == "named" else f"{EVALUATION}{name}", value)


def _position(reported: Mapping[object, object]) -> tuple[str | None, float | None]:
    unit, done = reported.get("unit"), _count(reported.get("done"))
    return (str(unit), done) if unit in UNITS and done is not None else (None, None)


def _metrics(reported: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    for name, value in list(reported.items())[:MOST_METRICS]:
        text = _text(value)
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and text is not None:
            yield name, text


def _text(value: object) -> str | None:
    """A number as Python writes it; None where it is none."""
    if isinstance(value, str):
        return value if value in _WORDS else None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return "nan" if isinstance(value, float) and value != value else None
    return repr(value)


def _count(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _MOST_COUNT else None  # type: ignore[arg-type, operator]


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_COUNT else None
