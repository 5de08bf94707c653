"""Builds the daemon and the service of a guard."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
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
from costguard.daemon.shutdown import Shutdown
from costguard.daemon.work import JOBS, DaemonWork, PriceTask, SideTask, Signs
from costguard.db.lease import Lease
from costguard.doctor.finding import Finding
from costguard.ledger.feed.late_answers import LateAnswers
from costguard.main.bill import comparer, reading
from costguard.main.checkpoints import stored_stages
from costguard.main.feed import late_answers
from costguard.main.guard import Guard, belonging_of, opened
from costguard.main.history import history_of
from costguard.main.slack_intake import SlackIntake, build_slack_intake
from costguard.memory import give_back
from costguard.model.ports import Clock
from costguard.processes.guard_service import GuardService, ServiceParts
from costguard.processes.setup_check import SetupCheck
from costguard.processes.supervisor import Supervisor, end_hung
from costguard.processes.web_process import WebProcesses
from costguard.processes.wire import Begin, Pace, SlackTrouble, State, families_of
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


def daemon_of(
    guard: Guard, alive: Callable[[], None] = lambda: None, bark: Callable[[timedelta], None] | None = None
) -> Daemon:
    def is_answered(is_well: bool) -> None:
        alive()
        if is_well:  # an agent's report could be stored
            guard.listening.sign(_DATABASE)

    catalogue = guard.catalogue
    prices = PriceTask(catalogue.fetch, catalogue.store, catalogue.every) if catalogue.is_enabled else None
    retention, history = guard.settings.retention.retention, history_of(guard.settings)
    store = None if history is None else history.store
    comparison = comparer(guard.settings, guard.database)
    work = DaemonWork(
        guard.after_pass,
        guard.idle_watch,
        guard.settings.idle.every,
        guard.messaging.outbox.deliver if guard.messaging is not None else None,
        {
            JOBS: SideTask(_of_the_fleet(guard, _JOBS_EVERY), guard.jobs.advance),
            "checkpoints": SideTask(_LOOKS_EVERY, guard.jobs.watch.run),
            "schedules": SideTask(_of_the_fleet(guard, _JOBS_EVERY), guard.schedules.run),
            **_discovery_task(guard),
            **_bill_task(guard),
            **({"trackers": SideTask(_POINTS_EVERY, guard.trackers.run)} if guard.trackers.names else {}),
            **({FEED: SideTask(_FEED_EVERY, guard.feed.run)} if guard.feed is not None else {}),
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
        prices,
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
) -> Iterator[tuple[Guard, GuardService]]:
    """A guard, and its service, which is about to run; a web process is starting already.

    Setting `stop` ends it, as SIGTERM does.

    Where a part of it hangs then, `end` ends the process with an exit code.
    """
    shutdown = Shutdown(stop, end=end)
    with opened(settings, clock, speed) as guard:
        made = GuardService(partial(_parts, guard), web, shutdown)
        yield guard, made
    if made.has_ended:
        shutdown.over()


def _parts(guard: Guard, supervisor: Supervisor) -> ServiceParts:
    """Builds what the service starts."""
    daemon = daemon_of(guard, supervisor.alive, end_hung)
    parts = (guard.settings, guard.rules, guard.database, guard.clock)
    intake = build_slack_intake(*parts, daemon.ask_for_pass, by_socket=True)
    metrics = guard.meters.registry
    guard.listening.expect(_DATABASE, _WEB)
    return ServiceParts(
        daemon=daemon,
        begin=_begin(guard),
        state=lambda: _state(guard, daemon, intake),
        counted=lambda: families_of(metrics.collect()),
        answered=partial(guard.listening.sign, _WEB),
        setup=SetupCheck(partial(_examined, guard.settings), guard.speed),
        loose=guard.loose,
        intake=intake,
    )


def _examined(settings: Settings) -> Sequence[Finding]:
    from costguard.main.doctor import examined  # only here: the server is up before it is loaded

    return examined(settings, SystemClock().now)


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
        slack=guard.messaging.trouble if guard.messaging is not None else SlackTrouble(),
        socket_trouble=slack_intake.trouble if slack_intake is not None else "",
        slack_refused=slack_intake.dispatcher.refused if slack_intake is not None else {},
    )
