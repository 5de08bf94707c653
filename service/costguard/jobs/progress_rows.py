"""The points of jobs' curves: a few hundred of each series, whatever the length of the job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select

from costguard.db.bulk import chunks
from costguard.db.tables import progress_points
from costguard.db.types import storable
from costguard.model.progress import EVALUATION, SeriesPoint
from costguard.progress.series import MOST, rewound, thinned

MOST_EVALUATIONS = 20  # series of a job

_c = progress_points.c
# Made once: thousands of agents report every minute, and making a statement takes longer than running it.
_OF_JOB, _OF_SERIES = _c.job_id == bindparam("of_job"), _c.series == bindparam("of_series")
_COUNTS = select(_c.series, func.count().label("points")).where(_OF_JOB).group_by(_c.series)
_NEWEST_VALUES = select(_c.value).where(_OF_JOB, _OF_SERIES).order_by(_c.id.desc()).limit(bindparam("most"))
_SERIES = select(progress_points).where(_OF_JOB, _OF_SERIES).order_by(_c.id)


@dataclass(frozen=True, slots=True)
class _Stored:
    id: int
    start: tuple[int, int]
    unit: str | None
    done: float | None


def add(connection: Connection, job_id: str, attempt_id: int, points: Sequence[SeriesPoint]) -> None:
    """Of a series that is full, what a later start did again goes first, then every second point."""
    if not points:
        return
    stored = counts(connection, job_id)
    evaluations = {name for name in stored if name.startswith(EVALUATION)}
    rows = []
    for point in points:
        series = str(storable(point.series))
        if series.startswith(EVALUATION) and series not in evaluations:
            if len(evaluations) == MOST_EVALUATIONS:
                continue
            evaluations.add(series)
        rows.append(
            {
                "job_id": job_id,
                "attempt_id": attempt_id,
                "run": point.run,
                "series": series,
                "at": point.at,
                "unit": point.unit,
                "done": point.done,
                "value": point.value if point.value is None or isfinite(point.value) else None,
            }
        )
    if rows:
        connection.execute(insert(progress_points), rows)
    for series in {str(row["series"]) for row in rows}:
        if stored.get(series, 0) + sum(row["series"] == series for row in rows) > MOST:
            _thin(connection, job_id, series)


def of_job(connection: Connection, job_id: str) -> dict[str, list[SeriesPoint]]:
    """By series, in the order in which they came, with what a later start of the command did again."""
    by_series: dict[str, list[SeriesPoint]] = {}
    for row in connection.execute(select(progress_points).where(_c.job_id == job_id).order_by(_c.id)):
        point = SeriesPoint(row.run, row.series, row.at, row.unit, row.done, row.value, row.attempt_id)
        by_series.setdefault(row.series, []).append(point)
    return by_series


def newest_values(connection: Connection, job_id: str, series: str, most: int) -> list[float | None]:
    """Of the last points of one series, the oldest first."""
    rows = connection.execute(_NEWEST_VALUES, {"of_job": job_id, "of_series": series, "most": most}).all()
    return [value for (value,) in reversed(rows)]


def series_of(connection: Connection, job_id: str, series: str) -> list[SeriesPoint]:
    """One series of a job, in the order in which it came."""
    return [_point(row) for row in connection.execute(_SERIES, {"of_job": job_id, "of_series": series})]


def _point(row: Row[Any]) -> SeriesPoint:
    return SeriesPoint(row.run, row.series, row.at, row.unit, row.done, row.value, row.attempt_id)


def series_of_jobs(connection: Connection, job_ids: Collection[str], series: str) -> dict[str, list[SeriesPoint]]:
    """One series of each of these jobs; jobs without any are left out."""
    by_job: dict[str, list[SeriesPoint]] = {}
    query = select(progress_points).where(_c.series == series).order_by(_c.id)
    for some in chunks(set(job_ids)):
        for row in connection.execute(query.where(_c.job_id.in_(some))):
            point = SeriesPoint(row.run, row.series, row.at, row.unit, row.done, row.value, row.attempt_id)
            by_job.setdefault(row.job_id, []).append(point)
    return by_job


def counts(connection: Connection, job_id: str) -> dict[str, int]:
    """How many points each series of a job has."""
    return {row.series: row.points for row in connection.execute(_COUNTS, {"of_job": job_id})}


def _thin(connection: Connection, job_id: str, series: str) -> None:
    query = select(_c.id, _c.attempt_id, _c.run, _c.unit, _c.done)
    rows = connection.execute(query.where(_c.job_id == job_id, _c.series == series).order_by(_c.id)).all()
    stored = [_Stored(row.id, (row.attempt_id, row.run), row.unit, row.done) for row in rows]
    kept = {one.id for one in thinned(rewound(stored), MOST)}
    for some in chunks([one.id for one in stored if one.id not in kept]):
        connection.execute(delete(progress_points).where(_c.id.in_(some)))
