"""Logging of points to experiment trackers: everything once, in order, each tracker on its own thread.

A point is marked as sent before it is sent, and dropped after the tracker accepted it. Of one that is marked and still
there nobody knows whether it arrived: the tracker's client looks before it sends that again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from costguard.db import lease
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, TrackerError, TrackerRunRefused
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.jobs.rows import job_rows
from costguard.model.backoff import Backoff
from costguard.model.delivery.tracker import TrackedRun, Tracker, TrackerPoint
from costguard.model.ports import Clock
from costguard.trackers import rows, tracker_events
from costguard.trackers.points import TrackedJobs

log = structlog.get_logger(__name__)

MOST_POINTS = 200  # in one request: with five metrics each as many as MLflow takes
_RUNS = 500  # looked at in one turn
_BACKOFF = Backoff(timedelta(seconds=5), timedelta(minutes=5))
_RUN_REFUSED = timedelta(hours=1)  # until a run that was refused is tried again: it may have been restored
GIVE_UP = timedelta(days=30)


class TrackerClient(Protocol):
    def log(self, run: str, points: Sequence[TrackerPoint]) -> None:
        """Logs the points, the oldest first; of those that were tried before, what is not there yet.

        Raises TrackerRunRefused, and TrackerError for what concerns all runs.
        """

    def close(self) -> None: ...


class TrackerDelivery:
    """Logs to one tracker. One thread at a time uses it. `count` receives "logged" or "failed" of each request."""

    def __init__(
        self,
        database: Database,
        client: TrackerClient,
        clock: Clock,
        tracker: Tracker,
        count: Callable[[str, str], None] = lambda _name, _outcome: None,
    ) -> None:
        self._database = database
        self._client = client
        self._clock = clock
        self._tracker = tracker
        self._count = count
        self._failures = 0  # in a row, of the tracker as a whole
        self._not_before: datetime | None = None

    @property
    def is_due(self) -> bool:
        return self._not_before is None or self._clock.now() >= self._not_before

    def run(self, fence: Lease | None = None, stop: threading.Event | None = None) -> None:
        """Logs all that waits, until the tracker fails. Raises LeaseLost and other StoreErrors."""
        while self.is_due:
            with self._database.read() as connection:
                if fence is not None:
                    lease.check_still_held(connection, fence)
                due = rows.due(connection, self._tracker, self._clock.now(), _RUNS)
            if not due:
                return
            for run in due:
                if not self._log_batch(run, fence, stop):
                    return

    def _log_batch(self, run: TrackedRun, fence: Lease | None, stop: threading.Event | None) -> bool:
        """Logs a batch, and says whether the next run may be logged to."""
        with self._database.read() as connection:
            points = rows.points(connection, run.id, MOST_POINTS)
        if points:
            through = points[-1].at
            if not all(point.is_tried for point in points):
                with self._database.write(fence) as connection:
                    rows.mark_tried(connection, run.id, through)
            # A process that stood still leaves the rest to the one that took over.
            if (stop is not None and stop.is_set()) or not (fence is None or fence.is_certain):
                return False
            try:
                self._client.log(run.run, points)
            except TrackerRunRefused as error:
                self._count(self._tracker.value, "failed")
                self._refused(run, error, fence)
                return True
            except TrackerError as error:
                self._count(self._tracker.value, "failed")
                self._failed(run, error, fence)
                return False
            except Exception as error:  # a fault of ours with this run must not hold up the others
                log.exception("tracker_not_logged_to", tracker=self._tracker.value, run=run.run)
                self._count(self._tracker.value, "failed")
                with self._database.write(fence) as connection:
                    rows.failed(connection, run, self._clock.now() + _RUN_REFUSED, f"{type(error).__name__}: {error}")
                return True
            self._failures, self._not_before = 0, None
            self._count(self._tracker.value, "logged")
            with self._database.write(fence) as connection:
                rows.logged(connection, run.id, through, self._clock.now())
        return True

    def _failed(self, run: TrackedRun, error: TrackerError, fence: Lease | None) -> None:
        """All runs wait: each alone would hold up the others by a time-out. Then another one is tried first."""
        self._failures += 1
        now = self._clock.now()
        self._not_before = now + _BACKOFF.after(self._failures, at_least=error.at_least)
        try_after = now + _BACKOFF.after(run.tries + 1, at_least=error.at_least)
        log.warning("tracker_failed", tracker=self._tracker.value, failures=self._failures, error=str(error))
        with self._database.write(fence) as connection:
            rows.failed(connection, run, try_after, str(error))
        self._give_up_old(run, now, fence)

    def _refused(self, run: TrackedRun, error: TrackerRunRefused, fence: Lease | None) -> None:
        """Records a refusal. The owner is notified once, however often it is tried."""
        now = self._clock.now()
        log.warning("tracker_run_refused", tracker=self._tracker.value, run=run.run, error=str(error))
        with self._database.write(fence) as connection:
            rows.failed(connection, run, now + _RUN_REFUSED, str(error))
            job = job_rows.read(connection, run.job_id)
            if run.refused_at is None and job is not None:
                rows.refused(connection, run.id, now)
                audit_log.append(connection, [tracker_events.refused(job, run, str(error), now)], now)
        self._give_up_old(run, now, fence)

    def _give_up_old(self, run: TrackedRun, now: datetime, fence: Lease | None) -> None:
        """Points are not kept forever for a tracker that nobody brings back."""
        with self._database.read() as connection:
            oldest = rows.points(connection, run.id, 1)
        if not oldest or now - oldest[0].at < GIVE_UP:
            return
        with self._database.write(fence) as connection:
            count = rows.give_up(connection, run.id, now - GIVE_UP)
            job = job_rows.read(connection, run.job_id)
            if count and job is not None:
                audit_log.append(connection, [tracker_events.given_up(job, run, count, oldest[0].at, now)], now)


_LAST_WORDS_S = 1.0  # for the threads to store what was accepted


class Trackers:
    """All trackers of the settings, each on its own thread while points wait: a slow one holds up no other."""

    def __init__(
        self,
        database: Database,
        clients: Mapping[Tracker, TrackerClient],
        clock: Clock,
        count: Callable[[str, str], None] = lambda _name, _outcome: None,
    ) -> None:
        self._clock = clock
        self._jobs = TrackedJobs(database, frozenset(clients))
        self._clients = clients
        self._deliveries = {
            tracker: TrackerDelivery(database, client, clock, tracker, count) for tracker, client in clients.items()
        }
        self._threads: dict[Tracker, threading.Thread] = {}

    @property
    def names(self) -> tuple[Tracker, ...]:
        return tuple(self._deliveries)

    def run(self, fence: Lease, stop: threading.Event) -> None:
        """Starts a thread for each tracker that is due, and returns at once. Raises LeaseLost."""
        self._jobs.follow_ends(self._clock.now(), fence)
        for tracker, delivery in self._deliveries.items():
            is_busy = tracker in self._threads and self._threads[tracker].is_alive()
            if delivery.is_due and not is_busy:
                self._threads[tracker] = threading.Thread(
                    target=_take_turn, args=(tracker, delivery, fence, stop), name=f"tracker-{tracker}", daemon=True
                )
                self._threads[tracker].start()

    def deliver(self, fence: Lease | None = None) -> None:
        """Logs to one tracker after the other, to the end. Raises LeaseLost."""
        self._jobs.follow_ends(self._clock.now(), fence)
        for delivery in self._deliveries.values():
            delivery.run(fence)

    def close(self) -> None:
        """Gives the threads a moment. What they cannot store is looked for by the next process."""
        until = time.monotonic() + _LAST_WORDS_S
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        for client in self._clients.values():
            client.close()


def _take_turn(tracker: Tracker, delivery: TrackerDelivery, fence: Lease, stop: threading.Event) -> None:
    try:
        # What was not stored as logged is looked for by a later turn.
        with Isolated("tracker_turn_failed", passing=LeaseLost, tracker=tracker.value):
            delivery.run(fence, stop)
    except LeaseLost:
        log.warning("tracker_turn_ended", tracker=tracker.value, why="another daemon took over")
