"""Runs the guard: this process watches the fleet, and starts others that serve HTTP."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from costguard.clock import ScaledClock, SystemClock
from costguard.daemon.feed import FEED
from costguard.daemon.history import turns as history_turns
from costguard.daemon.reconcile import PassReport
from costguard.daemon.retention import turns as archive_turns
from costguard.daemon.schedule import Daemon
from costguard.daemon.shutdown import Shutdown, ended_by_signals
from costguard.daemon.work import JOBS, DaemonWork, PriceTask, SideTask, Signs
from costguard.db.lease import Lease
from costguard.doctor.finding import CheckState
from costguard.errors import CostguardError
from costguard.ledger.feed.late_answers import LateAnswers
from costguard.main.bill import comparer, reading
from costguard.main.checkpoints import stored_stages
from costguard.main.feed import late_answers
from costguard.main.guard import Guard, belonging_of, opened
from costguard.main.history import history_of
from costguard.main.slack_intake import SlackIntake, build_slack_intake
from costguard.memory import few_arenas, give_back
from costguard.model.ports import Clock
from costguard.processes.supervisor import Supervisor, end_hung
from costguard.processes.web_process import WebProcesses
from costguard.processes.wire import Asked, Begin, Checked, Pace, State, families_of
from costguard.settings import Settings
from costguard.settings.environment import of_serving
from costguard.spend.history.closed_days import History
from costguard.stages.expiry import StageExpiry

log = structlog.get_logger(__name__)

_JOBS_EVERY = timedelta(seconds=5)  # of the guard's clock...
_JOBS_AT_MOST_EVERY = timedelta(seconds=1)  # ...but never more often in real time
_POINTS_EVERY = timedelta(seconds=2)  # how often it is asked whether there are any to log
_FEED_EVERY = timedelta(seconds=1)  # one turn of pulling follows the other
_LATE_ANSWERS_EVERY = timedelta(minutes=1)
_EVENTS_EVERY = timedelta(seconds=1)  # how often it is asked whether there are any to send
_TIDY_EVERY = timedelta(hours=6)  # old archives of code
_STAGES_EVERY = timedelta(minutes=1)  # how often it is asked whether staged data is to be deleted
_BILL_EVERY = timedelta(minutes=30)  # how often it is asked whether the bill is to be read
_COMPARED_EVERY = timedelta(minutes=10)  # how often it is asked whether days are to be compared with it
_ARCHIVES_EVERY = timedelta(hours=6)
_SEARCHES_EVERY = timedelta(minutes=1)  # how often it is asked whether projects are to be searched for
_HISTORY_EVERY = timedelta(hours=1)  # how often it is asked whether a day closed, or changed since
_LOOKS_EVERY = timedelta(seconds=15)  # how often it is asked whether one is due
_DATABASE, _WEB = "database", "web process"  # both must work for an agent's report to arrive
_FIRST_ANSWER_S = 5.0  # how long the first pass waits for it: they would keep each other waiting
_FINISHING_S = 5.5  # for what is being written
_RELEASING_S = 1.5  # and then for the lease
_LOOK_S = 0.2


def daemon_of(
    guard: Guard, alive: Callable[[], None] = lambda: None, bark: Callable[[timedelta], None] | None = None
) -> Daemon:
    def is_answered(is_well: bool) -> None:
        alive()
        if is_well:  # an agent's report could be stored
            guard.listening.sign(_DATABASE)

    prices = PriceTask(guard.fetch_prices, guard.store_prices, guard.settings.prices.refresh_every)
    retention, history = guard.settings.retention.retention, history_of(guard.settings)
    store = None if history is None else history.store
    comparison = comparer(guard.settings, guard.database)
    work = DaemonWork(
        guard.after_pass,
        guard.idle_watch,
        guard.settings.idle.every,
        guard.messaging.outbox.deliver if guard.messaging is not None else None,
        {
            JOBS: SideTask(_of_the_fleet(guard, _JOBS_EVERY), guard.advance_jobs),
            "checkpoints": SideTask(_LOOKS_EVERY, guard.jobs.watch.run),
            "schedules": SideTask(_of_the_fleet(guard, _JOBS_EVERY), guard.schedules.run),
            **_discovery_task(guard),
            **_bill_task(guard),
            **_trackers_task(guard),
            **_feed_task(guard),
            "late answers": SideTask(_of_the_fleet(guard, _LATE_ANSWERS_EVERY), _late_answers(guard).run),
            "bill comparison": SideTask(
                _of_the_fleet(guard, _COMPARED_EVERY), lambda lease, _: comparison.run(guard.clock.now(), lease)
            ),
            "code": SideTask(_TIDY_EVERY, guard.code.tidy),
            "stages": SideTask(_of_the_fleet(guard, _STAGES_EVERY), stage_expiry(guard).run),
            "archives": SideTask(_ARCHIVES_EVERY, archive_turns(guard.database, retention, guard.clock, store)),
            **_history_task(guard, history, retention.folder),
            # Without receivers, once at the start: those that were taken out of the settings are forgotten.
            "webhooks": SideTask(_EVENTS_EVERY if guard.webhooks.names else timedelta(days=1), guard.webhooks.run),
        },
        guard.messaging.lookups.run if guard.messaging is not None else None,
        guard.cloud.prepare,
    )
    daemon = Daemon(
        guard.database,
        guard.reconciler,
        guard.holder,
        guard.settings.watch.every,
        prices if guard.settings.prices.enabled else None,
        work,
        Signs(lambda seconds, report: _passed(guard, seconds, report), is_answered, bark),
        guard.marking.look,
    )
    if guard.feed is not None:
        guard.feed.wake = daemon.ask_for_jobs
    return daemon


def stage_expiry(guard: Guard) -> StageExpiry:
    """Returns what deletes staged data that no job uses any more."""
    return StageExpiry(guard.database, guard.clock, stored_stages(guard.settings), guard.rules.jobs.stage)


def _bill_task(guard: Guard) -> dict[str, SideTask]:
    bill = reading(guard.settings.bill, guard.database, guard.clock)
    return {} if bill is None else {"bill": SideTask(_of_the_fleet(guard, _BILL_EVERY), bill.run)}


def _discovery_task(guard: Guard) -> dict[str, SideTask]:
    """The searches for projects; asked for every minute, and due every ten."""
    discovery = guard.discovery
    if discovery is None:
        return {}

    def run(lease: Lease, stop: threading.Event) -> None:
        if discovery.is_due:
            discovery.run(lease, stop)

    return {"discovery": SideTask(_of_the_fleet(guard, _SEARCHES_EVERY), run)}


def _history_task(guard: Guard, history: History | None, archive: Path) -> dict[str, SideTask]:
    if history is None:
        return {}
    return {"history": SideTask(_HISTORY_EVERY, history_turns(guard.database, history, archive, guard.clock))}


def _of_the_fleet(guard: Guard, every: timedelta) -> timedelta:
    """Returns an interval of the fleet's clock in real time."""
    return max(every / guard.speed, _JOBS_AT_MOST_EVERY)


def _trackers_task(guard: Guard) -> dict[str, SideTask]:
    return {"trackers": SideTask(_POINTS_EVERY, guard.trackers.run)} if guard.trackers.names else {}


def _feed_task(guard: Guard) -> dict[str, SideTask]:
    return {FEED: SideTask(_FEED_EVERY, guard.feed.run)} if guard.feed is not None else {}


def _late_answers(guard: Guard) -> LateAnswers:
    scope = guard.settings.watch.scope
    return late_answers(scope, guard.database, guard.cloud, guard.clock, belonging_of(guard.settings))


def _passed(guard: Guard, seconds: float, report: PassReport | None) -> None:
    """Returns the memory of a pass over a large fleet to the system until the next."""
    guard.meters.passed(seconds, report)
    give_back()


@contextmanager
def service(
    settings: Settings,
    web: WebProcesses,
    clock: Clock | None = None,
    speed: float = 1.0,
    stop: threading.Event | None = None,
    end: Callable[[int], object] = os._exit,
) -> Iterator[GuardService]:
    """A guard that is about to serve; a web process is starting already. Setting `stop` ends it, as SIGTERM does.

    Where a part of it hangs then, `end` ends the process with an exit code.
    """
    shutdown = Shutdown(stop, end=end)
    with opened(settings, clock, speed) as guard:
        made = GuardService(guard, web, shutdown)
        yield made
    if made.has_ended:
        shutdown.over()


class GuardService:
    """A guard with all of its processes."""

    def __init__(self, guard: Guard, web: WebProcesses, shutdown: Shutdown) -> None:
        self.guard = guard
        self.has_ended = False
        self._web = web
        self._shutdown = shutdown

    def run(self, ready: Callable[[str], None]) -> None:
        """Watch and answer until SIGTERM or Ctrl-C; within ten seconds of that, end.

        `ready` is called with the address once it answers. Raises CostguardError where it never does, and
        KeyboardInterrupt after Ctrl-C.
        """
        with ended_by_signals(self._shutdown):
            self._run(ready)
        if self._shutdown.exit_code:
            raise KeyboardInterrupt

    def _run(self, ready: Callable[[str], None]) -> None:
        few_arenas()
        guard, web, shutdown = self.guard, self._web, self._shutdown
        supervisor = Supervisor(os.environ, os.getpid())
        daemon = daemon_of(guard, supervisor.alive, end_hung)
        parts = (guard.settings, guard.rules, guard.database, guard.clock)
        slack_intake = build_slack_intake(*parts, daemon.ask_for_pass, by_socket=True)
        metrics = guard.meters.registry
        setup = SetupCheck(guard.settings, guard.speed)
        guard.listening.expect(_DATABASE, _WEB)
        web.begin(
            _begin(guard),
            lambda: _state(guard, daemon, slack_intake),
            lambda: families_of(metrics.collect()),
            _wakes(daemon),
            partial(guard.listening.sign, _WEB),
            setup.checked,
            guard.loose,
        )
        # What is there by now stays to the end. Looking through it for garbage would hold up everything by a fifth of
        # a second now and then.
        gc.freeze()
        web.has_served(_FIRST_ANSWER_S)
        daemon.start()
        setup.start()
        guard.loose.start(lambda: daemon.state.last_pass_at is not None)
        try:
            if slack_intake is not None:
                slack_intake.open()
            if _came_up(web, shutdown):
                ready(web.url)
                supervisor.ready()
                shutdown.requested.wait()
        finally:
            supervisor.stopping()
            shutdown.begin()
            self._end(daemon, slack_intake)

    def _end(self, daemon: Daemon, slack_intake: SlackIntake | None) -> None:
        """Ends the parts. A part that hangs is left to the shutdown, which ends the process when the time is up."""
        self._web.ask_to_stop()
        self.guard.loose.stop()
        steps: dict[str, Callable[[], object]] = {
            "the watch": lambda: daemon.stop(timedelta(seconds=_FINISHING_S)),
            "the process that serves": lambda: self._web.wait_for_end(_FINISHING_S),
        }
        if slack_intake is not None:
            steps["clicks in Slack"] = slack_intake.close
        is_over = self._shutdown.run(steps, lambda: daemon.running, _FINISHING_S + _RELEASING_S)
        self.has_ended = is_over and not daemon.running


class SetupCheck:
    """Checks the set-up in a thread, so that nothing waits for it. A clock that was sped up is no clock to check by."""

    def __init__(self, settings: Settings, speed: float = 1.0) -> None:
        self._settings = settings
        self._is_real = speed == 1.0
        self._checked: Checked | None = None

    def start(self) -> None:
        if self._is_real:
            threading.Thread(target=self._run, name="doctor", daemon=True).start()

    def checked(self) -> Checked | None:
        return self._checked

    def _run(self) -> None:
        from costguard.main.doctor import examined  # only here: the server is up before it is loaded

        clock = SystemClock()
        try:
            findings = examined(self._settings, clock.now)
        except Exception:  # a fault of ours in it must not look like a check that found nothing
            log.exception("setup_not_checked")
            return
        self._checked = Checked(as_of=clock.now(), findings=tuple(findings))
        for one in findings:
            if one.state is CheckState.NEEDS:
                log.warning("setup_needs", what=one.name, where=one.where, why=one.sentence, mends_it=one.command)


def _came_up(web: WebProcesses, shutdown: Shutdown) -> bool:
    """Waits for the first answer; False: the end was asked for before. Raises CostguardError."""
    while not shutdown.requested.is_set():
        has_served = web.has_served(_LOOK_S)
        if has_served:
            return True
        if has_served is False:
            raise CostguardError(
                "The process that serves pages and the API ended as it started, so Costguard ended, too.",
                "Its own words are above. Mend what they name, and start Costguard again.",
            )
    return False


def _begin(guard: Guard) -> Begin:
    clock, pace = guard.clock, None
    if isinstance(clock, ScaledClock):
        pace = Pace(origin=clock.origin, since=clock.since, speed=clock.speed)
    return Begin(settings=dict(of_serving(guard.settings.given)), holder=guard.holder, speed=guard.speed, pace=pace)


def _state(guard: Guard, daemon: Daemon, slack_intake: SlackIntake | None) -> State:
    state = daemon.state
    return State(
        last_pass_at=state.last_pass_at,
        last_error=state.trouble,
        slack=guard.slack_trouble,
        socket_trouble=slack_intake.trouble if slack_intake is not None else "",
        slack_refused=slack_intake.dispatcher.refused if slack_intake is not None else {},
    )


def _wakes(daemon: Daemon) -> dict[Asked, Callable[[], None]]:
    def look() -> None:
        daemon.ask_for_jobs()
        daemon.ask_for_look()

    return {"pass": daemon.ask_for_pass, "jobs": daemon.ask_for_jobs, "look": look}
