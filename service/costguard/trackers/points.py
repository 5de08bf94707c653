"""Points for experiment trackers: a job's figures at each heartbeat, and once more when it is over.

They are what the job's own page shows at that moment. A heartbeat stores a point and waits for no tracker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.tables import lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.isolation import Isolated
from costguard.jobs.decide.measures.pace import pace, step_of
from costguard.jobs.decide.recovery.ended_runs import preemptions
from costguard.jobs.decide.view import AttemptView, JobView
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.gang import gang_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.jobs.rows.recovery.interruptions import sum_lost
from costguard.ledger.accrual import accrual_at, select_lifetimes, select_storage
from costguard.ledger.job_costs import costs, unfinished, with_unseen_vms
from costguard.model.delivery.tracker import TrackedRun, Tracker, TrackerPoint
from costguard.trackers import rows

_STILL_BILLS_EVERY = timedelta(hours=1)  # of a job that is over, such as the disk that is kept
_AT_MOST = timedelta(days=30)  # after its end


@dataclass(frozen=True, slots=True)
class TrackedJobs:
    """Makes points for jobs that name a run of one of these trackers."""

    database: Database
    trackers: frozenset[Tracker]

    def reported(self, job_ids: Collection[str], now: datetime) -> None:
        """Agents of these jobs reported. What fails here fails no report: the next one brings a point again."""
        with Isolated("tracker_points_not_stored", passing=()):
            with self.database.read() as connection:
                if not rows.open_runs(connection, job_ids, self.trackers):
                    return
            with self.database.write() as connection:
                _append(connection, rows.open_runs(connection, job_ids, self.trackers), now)

    def follow_ends(self, now: datetime, fence: Lease | None) -> None:
        """Makes, for a job that is over, a point an hour while it still bills, and a last one with its final cost."""
        with self.database.read() as connection:
            ending = rows.ending(connection, self.trackers)
            billing = _still_bill(connection, {run.job_id for run, _, _ in ending})
        last = [
            run
            for run, settled_at, has_vm in ending
            if not (has_vm or run.job_id in billing) or now - settled_at >= _AT_MOST
        ]
        hourly = [run for run, _, _ in ending if run.point_at is None or now - run.point_at >= _STILL_BILLS_EVERY]
        wanted = {run.id for run in (*last, *hourly)}
        if not wanted:
            return
        with self.database.write(fence) as connection:
            _append(connection, [run for run, _, _ in rows.ending(connection, self.trackers) if run.id in wanted], now)
            for run in last:
                rows.end(connection, run.id, now)


def _append(connection: Connection, runs: Sequence[TrackedRun], now: datetime) -> None:
    points = _points(connection, {run.job_id for run in runs}, now)
    for run in runs:
        if (point := points.get(run.job_id)) is not None:
            rows.append(connection, run, _no_step_back(point, run.step))


def _points(connection: Connection, job_ids: Collection[str], now: datetime) -> Mapping[str, TrackerPoint]:
    jobs = job_rows.of_ids(connection, job_ids)
    tried, interrupted = attempts.of_jobs(connection, job_ids), interruptions.of_jobs(connection, job_ids)
    rounds = gang_rows.rounds_of(connection, jobs.values())
    cost_of = costs(connection, accrual_at(connection, now), sorted(job_ids))
    points = {}
    for job_id, job in jobs.items():
        mine, ended, cost = tried.get(job_id, []), tuple(interrupted.get(job_id, ())), cost_of[job_id]
        view = JobView(job, tuple(AttemptView(attempt) for attempt in mine), ended, cost)
        lost = sum_lost(ended)
        points[job_id] = TrackerPoint(
            at=now,
            step=step_of(mine),
            cost=cost.amount if cost.whole else None,
            per_1000_steps=pace(mine, cost, rounds.get(job_id, ())).cost_per_1000,
            preemptions=preemptions(view),
            lost=lost.span,
            lost_cost=lost.cost,
        )
    return points


def _no_step_back(point: TrackerPoint, furthest: int | None) -> TrackerPoint:
    """A job that resumed is at an earlier step, and MLflow shows the value at the highest step as the latest.

    Source: `_update_latest_metrics_if_necessary` in mlflow/store/tracking/sqlalchemy_store.py compares by step first.
    """
    steps = [step for step in (point.step, furthest) if step is not None]
    return replace(point, step=max(steps, default=None))


def _still_bill(connection: Connection, job_ids: Collection[str]) -> set[str]:
    """Jobs with a VM or a disk whose bill is not final, or not known yet."""
    if not job_ids:
        return set()
    ids = sorted(job_ids)
    return with_unseen_vms(connection, ids) | {
        row.job
        for table, query in ((lifetimes, select_lifetimes()), (storage_spans, select_storage()))
        for row in connection.execute(unfinished(table, query, ids))
    }
