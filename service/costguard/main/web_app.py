"""Builds the serving process's application from what the watching process sends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from fastapi import FastAPI

from costguard import __version__
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.clock import ScaledClock, SystemClock
from costguard.daemon.listings import RHYTHM
from costguard.daemon.meters import Meters
from costguard.db.remembered import forget
from costguard.db.state import state
from costguard.db.transaction import Database
from costguard.jobs.act.attempts.vm_tools import vm_tools
from costguard.ledger.discovery.watch import WatchList
from costguard.main.access import authenticator_of, sign_in_pages
from costguard.main.checkpoints import stored_output
from costguard.main.history import history_of
from costguard.main.job_services import job_services
from costguard.messages.slack_health import OutboxTrouble, trouble_of
from costguard.model.ports import Clock
from costguard.pages.app import add_pages
from costguard.pages.sign_in import add_sign_in
from costguard.processes.wire import Begin, Watcher, families_of, metrics_of
from costguard.settings import Settings
from costguard.spend.loose.things import LooseThings
from costguard.web.handover import Giving, Taking
from costguard.web.limits import TokenBucket
from costguard.web.rendering import Sharing
from costguard.web.server import Server
from costguard.webhooks.delivery import states


def _loose(built: _Built) -> LooseThings:
    """Makes the loose things of what the watching process hears from Google."""
    watched, owners = WatchList(built.database, built.settings.watch.scope), built.settings.owners.rules
    return LooseThings(built.watcher.loose, watched, built.clock.now, owners, built.watcher.ask_loose)


_COUNTED_EVERY_S = 2.0


@contextmanager
def server_of(begin: Begin, settings: Settings, watcher: Watcher, share: Giving | Taking | None) -> Iterator[Server]:
    """A server that has everything but its socket. It says to the watcher that it lives, and what it counts.

    `share` says which connections are its own, where others serve the rest.
    """
    with application(begin, settings, watcher, lambda: server.should_exit) as (app, deps):
        signs = _Signs(watcher, deps.meters)
        server = Server(app, settings.server.trusted_proxies, share=share, alive=signs.give, forget=forget)
        yield server


class _Signs:
    """Reports from the event loop that requests are answered, and how many: a loop that hangs reports nothing."""

    def __init__(self, watcher: Watcher, meters: Meters) -> None:
        self._watcher, self._meters = watcher, meters
        self._counted_at_s = 0.0

    def give(self) -> None:
        self._watcher.alive()
        if time.monotonic() - self._counted_at_s >= _COUNTED_EVERY_S:
            self._counted_at_s = time.monotonic()
            self._watcher.counted(families_of(self._meters.registry.collect()))


@contextmanager
def application(
    begin: Begin, settings: Settings, watcher: Watcher, is_stopping: Callable[[], bool] = lambda: False
) -> Iterator[tuple[FastAPI, Deps]]:
    """The API and the pages. Raises CostguardError where the database does not answer."""
    clock: Clock = SystemClock()
    if begin.pace is not None:
        clock = ScaledClock(begin.pace.origin, begin.pace.speed, since=begin.pace.since)
    with closing(Database.open(settings.database.url.get_secret_value())) as database:
        built = _Built(begin, settings, clock, database, watcher)
        with _deps(built, is_stopping) as deps:
            app = create_app(deps)
            add_pages(app, deps, begin.speed)
            add_sign_in(app, sign_in_pages(settings, database, clock, begin.speed, deps.meters.signed_in))
            yield app, deps


@dataclass(frozen=True, slots=True)
class _Built:
    begin: Begin
    settings: Settings
    clock: Clock
    database: Database
    watcher: Watcher


@contextmanager
def _deps(built: _Built, is_stopping: Callable[[], bool]) -> Iterator[Deps]:
    settings, clock, database = built.settings, built.clock, built.database
    watcher, speed = built.watcher, built.begin.speed
    rules, receivers = settings.rules(), settings.webhook_list()
    slack_intake = None
    if settings.slack is not None:
        from costguard.main.slack_intake import build_slack_intake  # only here: it loads Slack's client

        slack_intake = build_slack_intake(settings, rules, database, clock, partial(watcher.wake, "pass"), by_http=True)
    wake, look = partial(watcher.wake, "jobs"), partial(watcher.wake, "look")
    jobs = job_services(settings, rules, database, clock, speed, wake, look)
    authenticator = authenticator_of(settings, database, clock, speed)

    def refused() -> Mapping[str, int]:
        here, there = (slack_intake.dispatcher.refused if slack_intake is not None else {}), watcher.state.slack_refused
        return {reason: here.get(reason, 0) + there.get(reason, 0) for reason in sorted({*here, *there})}

    try:
        yield Deps(
            database=database,
            clock=clock,
            rules=rules,
            authenticator=authenticator,
            version=__version__,
            # Passes come at real intervals; ages are the clock's.
            stale_after=max(3 * settings.watch.every, timedelta(minutes=5)) * speed,
            rhythm=RHYTHM.at_speed(speed),
            status=lambda: DaemonStatus(watcher.state.last_pass_at, watcher.state.last_error, watcher.silent_for),
            holder=built.begin.holder,
            slack=slack_intake.signed if slack_intake is not None else None,
            slack_refused=refused,
            outbox_trouble=lambda: _outbox_trouble(settings, database, watcher),
            socket_trouble=lambda: watcher.state.socket_trouble,
            setup=lambda: watcher.setup,
            agent_events=jobs.agent_events,
            vm_claims=jobs.vm_claims,
            tools=vm_tools(),
            code=jobs.code,
            output=stored_output(settings),
            listed=frozenset(settings.watch.scope.kept),
            archive=settings.retention.folder,
            history=history.store if (history := history_of(settings)) is not None else None,
            loose=_loose(built),
            billing_account=settings.bill.billing_account,
            jobs=jobs.service,
            sweeps=jobs.sweeps,
            schedules=jobs.schedules,
            wake=partial(watcher.wake, "pass"),
            is_stopping=is_stopping,
            is_https=(settings.sign_in.url or "").startswith("https://"),
            limits=TokenBucket(settings.server.requests_per_minute),
            webhook_states=lambda connection: states(connection, receivers),
            meters=Meters(__version__),
            sharing=Sharing(lambda: state(database)),
            other_metrics=lambda: metrics_of((*watcher.state.metrics, *watcher.others)),
        )
    finally:
        if slack_intake is not None:
            slack_intake.close()
        authenticator.close()


def _outbox_trouble(settings: Settings, database: Database, watcher: Watcher) -> OutboxTrouble | None:
    """Returns the outbox's trouble; None where Slack is not set up."""
    if settings.slack is None:
        return None
    return trouble_of(database, watcher.state.slack.workspace, watcher.state.slack.channels)
