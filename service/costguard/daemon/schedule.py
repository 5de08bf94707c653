"""The daemon: the schedule of its tasks, which run only while it holds the lease."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from costguard.daemon.lease_keeper import LeaseKeeper, Watchdog
from costguard.daemon.reconcile import PassReport, Reconciler
from costguard.daemon.shard_keeper import ShardKeeper
from costguard.daemon.work import JOBS, NO_MORE_WORK, NO_SIGNS, DaemonWork, PriceTask, Signs
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import CostguardError, DatabaseUnreachable, LeaseLost
from costguard.isolation import Isolated
from costguard.ledger import price_refresh

log = structlog.get_logger(__name__)

_SEND_EVERY = timedelta(seconds=1)
_LOOKS_APART = timedelta(seconds=10)
_AGAIN = timedelta(seconds=3)  # after a pass that the database's silence ended: over a new connection it may be over
_WORKERS = 18  # two turns of everything there is
LOOK_BACK_EVERY = timedelta(seconds=3)  # what was written later than this may be lost unnoticed
_IDLE_TURNS = 5  # how many of these pass before an empty outbox is looked into again

# A stalled host must not lose a run, however late it wakes, nor run it many times over.
_JOB_DEFAULTS = {"misfire_grace_time": None, "coalesce": True, "max_instances": 1}


@dataclass(frozen=True, slots=True)
class DaemonState:
    """The state of the daemon, for /readyz. Whether it acts, the database says."""

    last_pass_at: datetime | None = None
    last_pass_seconds: float | None = None
    last_error: str = ""
    prices_error: str = ""
    side_error: str = ""
    lease_error: str = ""

    @property
    def trouble(self) -> str:
        errors = dict.fromkeys((self.last_error, self.lease_error, self.prices_error, self.side_error))
        return "; ".join(error for error in errors if error)


class Daemon:
    """Runs a pass at every interval and when woken, and refreshes prices, while it holds the lease.

    Without the lease it looks at its share of the projects, and records them for the one that acts.
    """

    def __init__(
        self,
        database: Database,
        reconciler: Reconciler,
        holder: str,
        every: timedelta,
        prices: PriceTask | None = None,
        work: DaemonWork = NO_MORE_WORK,
        signs: Signs = NO_SIGNS,
        look_back: Callable[[Lease], object] = lambda _fence: None,
    ) -> None:
        self._database = database
        self._reconciler = reconciler
        self._every = every
        self._prices = prices
        self._work = work
        self._signs = signs
        self._side_errors: dict[str, str] = {}
        self._watchdog = Watchdog(signs.bark) if signs.bark is not None else None
        self._look_back_at_database = look_back
        self._looked_back_under: int | None = None  # the epoch of a lease
        self._looking_back = threading.Lock()
        self._turns_to_skip = 0
        self._is_prepared = False
        self.keeper = LeaseKeeper(database, holder, self._took_over, self._answered, self._lease_troubled)
        self.shards = ShardKeeper(database, holder, reconciler.watched, self.ask_for_pass)
        self._stop = threading.Event()
        self._passed = threading.Event()  # before the first pass no VM is known that could be measured
        # Two jobs never write at once: what a pass reads is what it then decides by.
        self._busy = threading.Lock()
        # What runs next to the passes is not held up by them. Each step is checked against what is stored when it is
        # written.
        self._turns = {name: threading.Lock() for name in work.side_tasks}
        self._looked_at = datetime.min.replace(tzinfo=UTC)  # in real time
        self._running: Counter[str] = Counter()
        self._counting = threading.Lock()
        self.state = DaemonState()
        self._pool = ThreadPoolExecutor(_WORKERS)
        self._scheduler = BackgroundScheduler(
            timezone=UTC, job_defaults=_JOB_DEFAULTS, executors={"default": self._pool}
        )

    def start(self) -> None:
        # Two: one that runs, and one that waits for its turn. Asked for in mid-pass, another pass must follow.
        self._add("pass", self._every, self._pass, max_instances=2)
        self._add("late", _SEND_EVERY, self._take_late)
        self._add("mark", LOOK_BACK_EVERY, self._look_back)
        if self._prices is not None:
            self._add("prices", self._prices.every, self._refresh)
        if self._work.idle_watch is not None:
            self._add("idle", self._work.idle_every, self._measure)
        if self._work.send is not None:
            self._add("send", _SEND_EVERY, self._send)
        for name, task in self._work.side_tasks.items():
            self._add(name, task.every, partial(self._run_side_task, name), max_instances=2)
        self._scheduler.start()
        self.keeper.start()
        self.shards.start()
        if self._watchdog is not None:
            self._watchdog.start()

    @property
    def is_acting(self) -> bool:
        """Says whether the lease is ours as far as this process knows."""
        return self.keeper.lease is not None

    def _add(self, name: str, every: timedelta, run: Callable[[], None], max_instances: int = 1) -> None:
        def counted() -> None:
            with self._counting:
                self._running[name] += 1
            try:
                run()
            finally:
                with self._counting:
                    self._running[name] -= 1

        seconds = every.total_seconds()
        self._scheduler.add_job(counted, "interval", seconds=seconds, id=name, max_instances=max_instances)

    @property
    def running(self) -> Sequence[str]:
        """Returns the names of the work that runs at the moment."""
        with self._counting:
            return [name for name, count in self._running.items() if count]

    def wake(self) -> None:
        """Run everything now rather than at the next interval."""
        now = datetime.now(UTC)  # noqa: TID251 - APScheduler keeps real time, whatever the guard's clock says
        for job in self._scheduler.get_jobs():
            with suppress(JobLookupError):  # `stop` removed it
                job.modify(next_run_time=now)

    def ask_for_pass(self) -> None:
        """Starts a pass now rather than at the next interval: a request waits for it."""
        self._soon("pass")

    def ask_for_jobs(self) -> None:
        """There is news of a job: its next step is taken now rather than at the next turn."""
        self._soon(JOBS)

    def ask_for_look(self) -> None:
        """A VM of ours came up or ended: a pass sees it soon, before it can be gone, but not one after the other."""
        self._soon("pass", self._looked_at + _LOOKS_APART)

    def _soon(self, what: str, not_before: datetime | None = None) -> None:
        if job := self._scheduler.get_job(what):
            now = datetime.now(UTC)  # noqa: TID251 - as above
            moment = now if not_before is None else max(now, not_before)
            if job.next_run_time is None or moment < job.next_run_time:
                with suppress(JobLookupError):  # as above
                    job.modify(next_run_time=moment)

    def stop(self, patience: timedelta | None = None) -> None:
        """Finish what is being written, leave the rest, and hand the lease on.

        What still runs after the patience is left behind, and `running` names it: without the lease it can write
        nothing more.
        """
        self._stop.set()
        self._passed.set()
        if self._scheduler.running:
            # Not by the scheduler's own waiting: it holds a lock meanwhile that a run which asks for another one needs.
            self._scheduler.pause()
            self._scheduler.remove_all_jobs()  # a scheduler that looks for due jobs at this moment finds none
            if patience is None:
                self._pool.shutdown(wait=True)
            else:
                waiting = threading.Thread(target=self._pool.shutdown, kwargs={"wait": True}, name="stop", daemon=True)
                waiting.start()
                waiting.join(patience.total_seconds())
            self._scheduler.shutdown(wait=False)
        if self._watchdog is not None:
            self._watchdog.end()
        self.shards.end(release=True)
        self.keeper.end(release=True)

    def _took_over(self) -> None:
        """Wakes the pass: due work is due now, also where another daemon acted until a moment ago."""
        if self._scheduler.running:
            self.wake()

    def _answered(self) -> None:
        self._signs.alive(not self.state.lease_error)
        if self._watchdog is not None:
            self._watchdog.answered()

    def _lease_troubled(self, error: str) -> None:
        self.state = replace(self.state, lease_error=error)

    def _look_back(self) -> None:
        """Count the mark on, and see whether the database is the one that was left."""
        if (fence := self._held()) is None or self._stop.is_set():
            return
        try:
            with Isolated("not_looked_back", passing=LeaseLost):  # the next turn does
                self._look_back_at_database(fence)
        except LeaseLost:
            self.keeper.step_aside(fence)

    def _held(self) -> Lease | None:
        """The lease, once it was looked what database it is of."""
        if (fence := self.keeper.held()) is None:
            return None
        try:
            with Isolated("not_looked_back", passing=LeaseLost) as failure:
                self._look_back_first(fence)
        except LeaseLost:
            self.keeper.step_aside(fence)
            return None
        return fence if failure.error is None else None

    def _look_back_first(self, fence: Lease) -> None:
        """While another guard acted, or none, an older database may have come in the place of this one."""
        with self._looking_back:
            if self._looked_back_under != fence.epoch:
                self._look_back_at_database(fence)
                self._looked_back_under = fence.epoch

    def _take_late(self) -> None:
        """Decides on a project that is slow to answer as soon as its look ends: the next pass may be a minute away."""
        if self._reconciler.has_late and not self.state.last_error and not self._busy.locked():
            self._pass(late_alone=True)

    def _pass(self, *, late_alone: bool = False) -> None:
        with self._busy:
            if self._stop.is_set() or (late_alone and not self._reconciler.has_late):
                return
            fence, began = self.keeper.held(), time.monotonic()
            if fence is None and not self._is_prepared:  # its first pass after a takeover is to wait for nothing
                self._is_prepared = True
                threading.Thread(target=self._work.prepare, name="prepare", daemon=True).start()
            try:
                if fence is None and not self.shards.held():
                    return
                report = self._look_only(late_alone) if fence is None else self._whole_pass(fence, late_alone)
            except LeaseLost:
                self.keeper.step_aside(fence)
                log.warning("pass_ended", why="another daemon took over")
            except Exception as error:  # the daemon must live on: the next pass sees the same world
                self.state = replace(self.state, last_error=str(error))
                log.error("pass_failed", error=str(error), exc_info=not _is_expected(error))
                self._signs.passed(time.monotonic() - began, None)
                if isinstance(error, DatabaseUnreachable):
                    self._soon("pass", datetime.now(UTC) + _AGAIN)  # noqa: TID251 - as above
            else:
                self._signs.passed(time.monotonic() - began, report)
                if not late_alone:
                    self._tell(report)
                    self._looked_at = datetime.now(UTC)  # noqa: TID251 - as above
                if fence is not None:
                    self._after_pass(report, fence)

    def _whole_pass(self, fence: Lease, late_alone: bool) -> PassReport:
        self._look_back_at_database(fence)  # rules act in passes, on what people answered until now
        return self._reconciler.run(fence, self._stop, self.shards, repeated=True, late_alone=late_alone)

    def _look_only(self, late_alone: bool) -> PassReport:
        """Looks at this replica's projects; the daemon that acts decides on what is recorded of them."""
        return self._reconciler.look(self.shards, self._stop, late_alone=late_alone)

    def _after_pass(self, report: PassReport, fence: Lease) -> None:
        self._passed.set()
        if not report.interrupted:
            self._follow(fence)
        self._turns_to_skip = 0  # the pass may have left something to send
        self.ask_for_jobs()  # it may have seen what became of a job's VM

    def _follow(self, fence: Lease) -> None:
        """Takes the steps after a pass; one that fails is done after the next: the ledger does not depend on it."""
        for what, do in self._work.after_pass.items():
            try:
                with Isolated("not_done_after_pass", passing=LeaseLost, what=what):
                    do(fence)
            except LeaseLost:
                self.keeper.step_aside(fence)
                log.warning("pass_ended", why="another daemon took over")
                return

    def _run_side_task(self, name: str) -> None:
        """Runs a side task, not before the first pass: the fate of VMs while the guard was away is not known."""
        self._passed.wait()
        with self._turns[name]:
            if self._stop.is_set() or (fence := self._held()) is None:
                return
            try:
                # Each step is written down before it is taken: the next turn goes on from there.
                with Isolated("turn_failed", passing=LeaseLost, what=name) as failure:
                    self._work.side_tasks[name].run(fence, self._stop)
                self._side_errors.pop(name, None)
                if failure.error is not None:
                    self._side_errors[name] = str(failure.error)
            except LeaseLost:
                self.keeper.step_aside(fence)
                log.warning("turn_ended", what=name, why="another daemon took over")
            self.state = replace(self.state, side_error="; ".join(self._side_errors.values()))

    def _send(self) -> None:
        """Slack is called outside of the passes, so that many messages, or a slow Slack, keep no pass waiting."""
        if self._work.send is None or self._stop.is_set():
            return
        if self._turns_to_skip:
            self._turns_to_skip -= 1
            return
        fence = self._held()
        if fence is None:
            return
        try:
            with Isolated("messages_not_sent", passing=LeaseLost):  # they are sent, or looked for, later
                if self._work.send(fence, self._stop) is None:
                    self._turns_to_skip = _IDLE_TURNS
                if self._work.look_up is not None and self._work.look_up(fence, self._stop):
                    self.ask_for_pass()  # it decides what had to wait for them
        except LeaseLost:
            self.keeper.step_aside(fence)
            log.warning("sending_ended", why="another daemon took over")

    def _refresh(self) -> None:
        """The catalogue is read outside of the passes, and only its writing takes a turn with them."""
        fence = self._held()
        if self._prices is None or fence is None or self._stop.is_set():
            return
        try:
            fetched = price_refresh.patiently(self._prices.fetch, self._stop)
            if fetched is None:
                return
            with self._busy:
                fence = self._held()
                if fence is not None and not self._stop.is_set():
                    self._prices.store(fetched, fence)
            self.state = replace(self.state, prices_error="")
        except LeaseLost:
            self.keeper.step_aside(fence)
        except Exception as error:  # the last good prices stay in force
            self.state = replace(self.state, prices_error=str(error))
            log.error("prices_not_refreshed", error=str(error), exc_info=not _is_expected(error))

    def _measure(self) -> None:
        """Measures use. Reading takes as long as it takes; only the writing keeps a pass waiting."""
        self._passed.wait()
        fence = self._held()
        if self._work.idle_watch is None or self._stop.is_set() or fence is None:
            return
        try:
            usages = self._work.idle_watch.read(self._stop)
            if not usages:
                return
            with self._busy:
                fence = self._held()
                if fence is None or self._stop.is_set():
                    return
                outcome = self._work.idle_watch.record(usages, fence)
            log.info("idleness", judged=outcome.judged, written=outcome.written, events=len(outcome.events))
        except LeaseLost:
            self.keeper.step_aside(fence)
            log.warning("measurement_ended", why="another daemon took over")
        except Exception as error:  # old evidence runs out by itself, and the next measurement tries again
            log.error("idleness_not_measured", error=str(error), exc_info=not _is_expected(error))

    def _tell(self, report: PassReport) -> None:
        seconds = (report.finished_at - report.started_at).total_seconds()
        trouble = "; ".join(one.error for one in report.failed_projects)
        self.state = replace(self.state, last_pass_at=report.finished_at, last_pass_seconds=seconds, last_error=trouble)
        log.info(
            "pass",
            seconds=round(seconds, 3),
            seen=sum(one.seen for one in report.recorded),
            changed=sum(one.new_or_changed for one in report.recorded),
            unread=sum(len(one.unread) for one in report.recorded),
            overdue=len(report.plan.overdue),
            interrupted=report.interrupted,
        )


def _is_expected(error: Exception) -> bool:
    """Says whether Costguard raises the error on purpose, with what to do; only other errors need their trace."""
    return isinstance(error, CostguardError)
