"""The points of jobs' curves: a few hundred of each series, whatever the length of the job."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select

from costguard.db.bulk import chunks
from costguard.db.tables import progress_points
from costguard.db.types import storable
from costguard.model.reported.progress import EVALUATION, SeriesPoint
from costguard_vm.progress.series import MOST, rewound, thinned

MOST_EVALUATIONS = 20  # series of a job

_c = progress_points.c
# Made once: thousands of agents report every minute, and making a statement takes longer than running it.
_OF_JOB, _OF_SERIES = _c.job_id == bindparam("of_job"), _c.series == bindparam("of_series")
_COUNTS = (
    select(_c.job_id, _c.series, func.count().label("points"))
    .where(_c.job_id.in_(bindparam("of_jobs", expanding=True)))
    .group_by(_c.job_id, _c.series)
)
_NEWEST_VALUES = select(_c.value).where(_OF_JOB, _OF_SERIES).order_by(_c.id.desc()).limit(bindparam("most"))
_SERIES = select(progress_points).where(_OF_JOB, _OF_SERIES).order_by(_c.id)


@dataclass(frozen=True, slots=True)
class _Stored:
    id: int
    start: tuple[int, int]
    unit: str | None
    done: float | None


class NewPoints(NamedTuple):
    """The points that an attempt's agent read from the output of its training."""

    job_id: str
    attempt_id: int
    points: Sequence[SeriesPoint]


def add(connection: Connection, reports: Collection[NewPoints]) -> dict[str, dict[str, int]]:
    """Adds points, and counts the points that each series of these jobs then has.

    In a full series, points that a later start repeated go first, then every second point.
    """
    by_job = counts(connection, {report.job_id for report in reports})
    rows = [row for report in reports for row in _rows_of(report, by_job.setdefault(report.job_id, {}))]
    if rows:
        connection.execute(insert(progress_points), rows)
    for job_id, series in sorted({(row["job_id"], row["series"]) for row in rows}):
        if by_job[job_id][series] > MOST:
            by_job[job_id][series] = _thin(connection, job_id, series)
    return by_job


def _rows_of(report: NewPoints, stored: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Counts them with those that are `stored`."""
    evaluations = {name for name in stored if name.startswith(EVALUATION)}
    for point in report.points:
        series = str(storable(point.series))
        if series.startswith(EVALUATION) and series not in evaluations:
            if len(evaluations) == MOST_EVALUATIONS:
                continue
            evaluations.add(series)
        stored[series] = stored.get(series, 0) + 1
        yield {
            "job_id": report.job_id,
            "attempt_id": report.attempt_id,
            "run": point.run,
            "series": series,
            "at": point.at,
            "unit": point.unit,
            "done": point.done,
            "value": point.value if point.value is None or isfinite(point.value) else None,
        }


def of_job(connection: Connection, job_id: str) -> dict[str, list[SeriesPoint]]:
    """Returns points by series, in the order in which they came, also those that a later start of the command
    repeated.
    """
    by_series: dict[str, list[SeriesPoint]] = {}
    for row in connection.execute(select(progress_points).where(_c.job_id == job_id).order_by(_c.id)):
        point = SeriesPoint(row.run, row.series, row.at, row.unit, row.done, row.value, row.attempt_id)
        by_series.setdefault(row.series, []).append(point)
    return by_series


def newest_values(connection: Connection, job_id: str, series: str, most: int) -> list[float | None]:
    """Returns the values of the last points of one series, the oldest first."""
    rows = connection.execute(_NEWEST_VALUES, {"of_job": job_id, "of_series": series, "most": most}).all()
    return [value for (value,) in reversed(rows)]


def series_of(connection: Connection, job_id: str, series: str) -> list[SeriesPoint]:
    """Reads a series of a job, in the order in which it came."""
    return [_point(row) for row in connection.execute(_SERIES, {"of_job": job_id, "of_series": series})]


def _point(row: Row[Any]) -> SeriesPoint:
    return SeriesPoint(row.run, row.series, row.at, row.unit, row.done, row.value, row.attempt_id)


def series_of_jobs(connection: Connection, job_ids: Collection[str], series: str) -> dict[str, list[SeriesPoint]]:
    """Reads a series of each of these jobs; jobs without any are left out."""
    by_job: dict[str, list[SeriesPoint]] = {}
    query = select(progress_points).where(_c.series == series).order_by(_c.id)
    for some in chunks(set(job_ids)):
        for row in connection.execute(query.where(_c.job_id.in_(some))):
            point = SeriesPoint(row.run, row.series, row.at, row.unit, row.done, row.value, row.attempt_id)
            by_job.setdefault(row.job_id, []).append(point)
    return by_job


def counts(connection: Connection, job_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Counts the points of each series of these jobs; jobs without any are left out."""
    by_job: dict[str, dict[str, int]] = {}
    for some in chunks(job_ids):
        for row in connection.execute(_COUNTS, {"of_jobs": some}):
            by_job.setdefault(row.job_id, {})[row.series] = row.points
    return by_job


def _thin(connection: Connection, job_id: str, series: str) -> int:
    """Thins a series, and returns the number of points left."""
    query = select(_c.id, _c.attempt_id, _c.run, _c.unit, _c.done)
    rows = connection.execute(query.where(_c.job_id == job_id, _c.series == series).order_by(_c.id)).all()
    stored = [_Stored(row.id, (row.attempt_id, row.run), row.unit, row.done) for row in rows]
    kept = {one.id for one in thinned(rewound(stored), MOST)}
    for some in chunks([one.id for one in stored if one.id not in kept]):
        connection.execute(delete(progress_points).where(_c.id.in_(some)))
    return len(kept)
