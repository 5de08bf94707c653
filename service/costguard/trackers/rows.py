"""Rows of the runs that jobs name, and of the points that wait for their trackers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, exists, insert, or_, select, text, update

from costguard.db.bulk import chunks
from costguard.db.tables import LIVE_ATTEMPT, OPEN_RUN, attempts, jobs, tracked_runs, tracker_points
from costguard.db.types import storable
from costguard.model.delivery.tracker import TrackedRun, Tracker, TrackerPoint
from costguard.model.money import Money

_MILLISECOND = timedelta(milliseconds=1)


def open_runs(connection: Connection, job_ids: Collection[str], trackers: Collection[Tracker]) -> list[TrackedRun]:
    """Returns the runs of these jobs for which points are still made."""
    return [
        run
        for some in chunks(set(job_ids))
        for run in _runs(connection, text(OPEN_RUN), tracked_runs.c.job_id.in_(some), _of(trackers))
    ]


def of_job(connection: Connection, job_id: str) -> list[TrackedRun]:
    return _runs(connection, tracked_runs.c.job_id == storable(job_id))


def ending(connection: Connection, trackers: Collection[Tracker]) -> list[tuple[TrackedRun, datetime, bool]]:
    """Open runs of jobs that are over: since when, and whether a VM of the job may still be there."""
    has_vm = exists().where(attempts.c.job_id == jobs.c.id, text(LIVE_ATTEMPT.replace("state", "attempts.state")))
    query = (
        select(tracked_runs, jobs.c.settled_at, has_vm.label("has_vm"))
        .join(jobs, jobs.c.id == tracked_runs.c.job_id)
        .where(text(OPEN_RUN), _of(trackers), jobs.c.settled_at.is_not(None))
    )
    return [
        (_run(row), row.settled_at, bool(row.has_vm)) for row in connection.execute(query.order_by(tracked_runs.c.id))
    ]


def append(connection: Connection, run: TrackedRun, point: TrackerPoint) -> None:
    """Stores one more point. Each is later than the one before by a millisecond at least, whatever the clock says."""
    at = point.at.replace(microsecond=point.at.microsecond // 1000 * 1000)
    if run.point_at is not None and at <= run.point_at:
        at = run.point_at + _MILLISECOND
    connection.execute(
        insert(tracker_points).values(
            run_id=run.id,
            at=at,
            step=point.step,
            cost_nanos=None if point.cost is None else point.cost.nanos,
            per_1000_nanos=None if point.per_1000_steps is None else point.per_1000_steps.nanos,
            preemptions=point.preemptions,
            lost_s=point.lost // timedelta(seconds=1),
            lost_nanos=point.lost_cost.nanos,
        )
    )
    _change(connection, run.id, point_at=at, step=point.step, waiting=tracked_runs.c.waiting + 1)


def end(connection: Connection, run_id: int, now: datetime) -> None:
    """No point is made for it any more."""
    _change(connection, run_id, ended_at=now)


def due(connection: Connection, tracker: Tracker, now: datetime, limit: int) -> list[TrackedRun]:
    """Runs for which points wait, the longest without any first."""
    is_due = or_(tracked_runs.c.try_after.is_(None), tracked_runs.c.try_after <= now)
    query = select(tracked_runs).where(text("waiting > 0"), tracked_runs.c.tracker == tracker.value, is_due)
    ordered = query.order_by(tracked_runs.c.logged_at.is_not(None), tracked_runs.c.logged_at, tracked_runs.c.id)
    return [_run(row) for row in connection.execute(ordered.limit(limit))]


def points(connection: Connection, run_id: int, limit: int) -> list[TrackerPoint]:
    """The oldest that wait."""
    query = select(tracker_points).where(tracker_points.c.run_id == run_id).order_by(tracker_points.c.at)
    return [_point(row) for row in connection.execute(query.limit(limit))]


def mark_tried(connection: Connection, run_id: int, through: datetime) -> None:
    """All up to this moment are sent now: whether they arrived is to be found out if no answer comes."""
    connection.execute(update(tracker_points).where(_up_to(run_id, through)).values(is_tried=True))


def mark_all_tried(connection: Connection) -> None:
    """Marks all points as tried, in a database that was restored: they may have been logged since the backup."""
    connection.execute(update(tracker_points).where(tracker_points.c.is_tried.is_(False)).values(is_tried=True))


def logged(connection: Connection, run_id: int, through: datetime, now: datetime) -> None:
    """The tracker has all up to this moment."""
    count = _drop(connection, _up_to(run_id, through))
    waiting = tracked_runs.c.waiting - count
    _change(connection, run_id, waiting=waiting, logged_at=now, tries=0, try_after=None, error="", refused_at=None)


def failed(connection: Connection, run: TrackedRun, try_after: datetime | None, error: str) -> None:
    _change(connection, run.id, tries=run.tries + 1, try_after=try_after, error=storable(error))


def refused(connection: Connection, run_id: int, now: datetime) -> None:
    _change(connection, run_id, refused_at=now)


def give_up(connection: Connection, run_id: int, before: datetime) -> int:
    """Drops older points, and returns how many."""
    count = _drop(connection, and_(tracker_points.c.run_id == run_id, tracker_points.c.at < before))
    if count:
        _change(connection, run_id, waiting=tracked_runs.c.waiting - count)
    return count


def _drop(connection: Connection, which: ColumnElement[bool]) -> int:
    return connection.execute(delete(tracker_points).where(which)).rowcount


def _up_to(run_id: int, through: datetime) -> ColumnElement[bool]:
    return and_(tracker_points.c.run_id == run_id, tracker_points.c.at <= through)


def _of(trackers: Collection[Tracker]) -> ColumnElement[bool]:
    return tracked_runs.c.tracker.in_(sorted(tracker.value for tracker in trackers))


def _change(connection: Connection, run_id: int, **values: object) -> None:
    connection.execute(update(tracked_runs).where(tracked_runs.c.id == run_id).values(values))


def _runs(connection: Connection, *which: Any) -> list[TrackedRun]:
    rows: Sequence[Row[Any]] = connection.execute(select(tracked_runs).where(*which).order_by(tracked_runs.c.id)).all()
    return [_run(row) for row in rows]


def _run(row: Row[Any]) -> TrackedRun:
    return TrackedRun(
        id=row.id,
        job_id=row.job_id,
        tracker=Tracker(row.tracker),
        run=row.run,
        point_at=row.point_at,
        step=row.step,
        waiting=row.waiting,
        logged_at=row.logged_at,
        tries=row.tries,
        error=row.error,
        refused_at=row.refused_at,
    )


def _point(row: Row[Any]) -> TrackerPoint:
    return TrackerPoint(
        at=row.at,
        step=row.step,
        cost=None if row.cost_nanos is None else Money(row.cost_nanos),
        per_1000_steps=None if row.per_1000_nanos is None else Money(row.per_1000_nanos),
        preemptions=row.preemptions,
        lost=timedelta(seconds=row.lost_s),
        lost_cost=Money(row.lost_nanos),
        is_tried=bool(row.is_tried),
    )
