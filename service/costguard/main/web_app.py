"""Builds the serving process's application from what the watching process sends."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from starlette.types import ASGIApp, Receive, Scope, Send

from costguard import __version__
from costguard.access import signing
from costguard.access.rules import Rules
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.checkpoints.client import InScaledTime
from costguard.clock import ScaledClock, SystemClock
from costguard.db.remembered import forget
from costguard.db.state import state
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import KEY_NAME, AgentEvents, AgentTokens
from costguard.jobs.rows.zone_advice import ZoneAdvice
from costguard.jobs.submit.code import CodeArchives
from costguard.jobs.submit.quote import Assessor, LaunchTargets
from costguard.jobs.submit.submit import JobService
from costguard.main.access import authenticator_of, sign_in_pages
from costguard.main.checkpoints import checkpoints, code_archives, data_places, stored_output
from costguard.main.ids import new_job_id, new_sweep_id
from costguard.main.renderer import first
from costguard.main.vm_tools import vm_tools
from costguard.main.wire import Begin, Family, Heard, Watcher
from costguard.messages.slack_health import OutboxTrouble, trouble_of
from costguard.model.instance import Shape
from costguard.model.ports import Checkpoints, Clock
from costguard.pages.app import add_pages
from costguard.pages.sign_in import add_sign_in
from costguard.settings import Settings
from costguard.sweeps.quote import SweepAssessor
from costguard.sweeps.submit import SweepService
from costguard.trackers.points import TrackedJobs
from costguard.web.limits import TokenBucket
from costguard.web.meters import Meters
from costguard.web.proxies import TrustedProxies
from costguard.web.renderer import RemoteRenderer, RendererProcess
from costguard.web.rendering import Sharing
from costguard.web.server import is_loopback, make_server
from costguard.webhooks.delivery import states

if TYPE_CHECKING:
    from costguard.gce.client import ComputeCloud


@dataclass(frozen=True, slots=True)
class JobServices:
    """`service` accepts jobs, `sweeps` sweeps, `agent_events` the agents' events, `code` is what jobs run."""

    service: JobService
    sweeps: SweepService
    agent_events: AgentEvents
    code: CodeArchives


def job_services(
    settings: Settings,
    rules: Rules,
    database: Database,
    clock: Clock,
    speed: float,
    wake: Callable[[], None],
    news: Callable[[], None],
) -> JobServices:
    """`wake` asks for a turn of the jobs, `news` for a look at the VMs as well."""
    stored: Checkpoints = checkpoints(settings, os.environ)
    if speed != 1:
        stored = InScaledTime(stored, clock, speed)
    launching = _launching(settings, clock)
    tokens = AgentTokens(signing.kept(database, KEY_NAME, clock.now()))
    code, data = code_archives(settings, database), data_places(settings, os.environ)
    service = JobService(database, clock, rules, launching, stored, data, new_job_id, wake, code)
    assessor = SweepAssessor(database, clock, rules, Assessor(database, clock, rules, launching, stored, data, code))
    sweeps = SweepService(database, clock, rules, assessor, new_sweep_id, wake, code)
    named = settings.trackers.names
    reported = TrackedJobs(database, named).reported if named else None
    return JobServices(service, sweeps, AgentEvents(database, clock, tokens, news, reported), code)


_PATIENCE = timedelta(seconds=2)  # of a quote, with Google's advice on zones, once a day


def _launching(settings: Settings, clock: Clock) -> LaunchTargets:
    cloud = _Cloud(settings.compute.endpoint, clock)
    return LaunchTargets(settings.watch.projects, cloud.shape, ZoneAdvice(cloud.preemption_rate, _PATIENCE))


class _Cloud:
    """The shapes of machine types, and advice on zones. Google's client is loaded for the first that is asked for."""

    def __init__(self, endpoint: str | None, clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._lock = threading.Lock()
        self._cloud: ComputeCloud | None = None

    def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
        return self._loaded().shape(project, zone, machine_type)

    def preemption_rate(self, project: str, zone: str, machine_type: str) -> float | None:
        return self._loaded().preemption_rate(project, zone, machine_type)

    def _loaded(self) -> ComputeCloud:
        with self._lock:
            if self._cloud is None:
                from costguard.gce.client import ComputeCloud  # only here: most who serve never ask Google

                self._cloud = ComputeCloud(self._endpoint, self._clock)
            return self._cloud


_PULSE_S = 1.0


Spawn = Callable[[socket.socket], RendererProcess]  # a process that renders, at this end


@contextmanager
def server_of(
    begin: Begin, settings: Settings, watcher: Watcher, spawn: Spawn | None = None
) -> Iterator[uvicorn.Server]:
    """A server that has everything but its socket. It says to the watcher that it lives.

    `spawn` starts a process that renders pages; None: this one does.
    """
    with application(begin, settings, watcher, lambda: server.should_exit) as (app, deps):
        if spawn is not None and deps.sharing is not None:
            _render_elsewhere(deps, deps.sharing, spawn, begin, watcher)
        listen = settings.server
        proxied = TrustedProxies(Pulse(app, watcher.alive), listen.trusted_proxies, listen.proxy_header)
        server = make_server(
            proxied,
            is_shared=lambda address: is_loopback(address) or proxied.is_proxy(address),
            forget=forget,
        )
        yield server


def _render_elsewhere(deps: Deps, sharing: Sharing, spawn: Spawn, begin: Begin, watcher: Watcher) -> None:
    def news() -> Heard:
        state, at_s = watcher.last_heard
        return Heard(state.model_copy(update={"slack_refused": deps.slack_refused()}), at_s)

    elsewhere = RemoteRenderer(spawn, lambda: first(begin), news)
    sharing.elsewhere = elsewhere
    deps.meters.also_of(lambda: elsewhere.pid)


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


class Pulse:
    """Reports from the event loop that requests are answered: a loop that hangs reports nothing."""

    def __init__(self, app: ASGIApp, alive: Callable[[], None]) -> None:
        self._app, self._alive = app, alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async with AsyncExitStack() as beating:

            async def sending(message: MutableMapping[str, Any]) -> None:
                await send(message)
                if message["type"] == "lifespan.startup.complete":
                    beating.callback(asyncio.create_task(self._beat()).cancel)

            await self._app(scope, receive, sending)

    async def _beat(self) -> None:
        while True:
            self._alive()
            await asyncio.sleep(_PULSE_S)


@dataclass(frozen=True, slots=True)
class _Built:
    begin: Begin
    settings: Settings
    clock: Clock
    database: Database
    watcher: Watcher


@contextmanager
def _deps(built: _Built, is_stopping: Callable[[], bool]) -> Iterator[Deps]:
    settings, clock, database, watcher, speed = (
        built.settings,
        built.clock,
        built.database,
        built.watcher,
        built.begin.speed,
    )
    rules, receivers = settings.rules(), settings.webhook_list()
    slack_intake = None
    if settings.slack is not None:
        from costguard.main.slack_intake import build_slack_intake  # only here: it loads Slack's client

        slack_intake = build_slack_intake(settings, rules, database, clock, partial(watcher.wake, "pass"), by_http=True)
    jobs = job_services(
        settings, rules, database, clock, speed, partial(watcher.wake, "jobs"), partial(watcher.wake, "look")
    )
    authenticator = authenticator_of(settings, database, clock, speed)

    def refused() -> Mapping[str, int]:
        here = slack_intake.dispatcher.refused if slack_intake is not None else {}
        there = watcher.state.slack_refused
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
            status=lambda: _status(watcher),
            holder=built.begin.holder,
            slack=slack_intake.signed if slack_intake is not None else None,
            slack_refused=refused,
            outbox_trouble=lambda: _outbox_trouble(settings, database, watcher),
            socket_trouble=lambda: watcher.state.socket_trouble,
            agent_events=jobs.agent_events,
            tools=vm_tools(),
            code=jobs.code,
            output=stored_output(settings),
            archive=settings.retention.folder,
            billing_account=settings.bill.billing_account,
            jobs=jobs.service,
            sweeps=jobs.sweeps,
            wake=partial(watcher.wake, "pass"),
            is_stopping=is_stopping,
            is_https=(settings.sign_in.url or "").startswith("https://"),
            limits=TokenBucket(settings.server.requests_per_minute),
            webhook_states=lambda connection: states(connection, receivers),
            meters=Meters(__version__),
            sharing=Sharing(lambda: state(database)),
            watch_metrics=lambda: metrics_of(watcher.state.metrics),
        )
    finally:
        if slack_intake is not None:
            slack_intake.close()
        authenticator.close()


def _status(watcher: Watcher) -> DaemonStatus:
    return DaemonStatus(watcher.state.last_pass_at, watcher.state.last_error, watcher.silent_for)


def _outbox_trouble(settings: Settings, database: Database, watcher: Watcher) -> OutboxTrouble | None:
    """Returns the outbox's trouble; None where Slack is not set up."""
    if settings.slack is None:
        return None
    return trouble_of(database, watcher.state.slack.workspace, watcher.state.slack.channels)


def metrics_of(families: Iterable[Family]) -> Iterator[Metric]:
    """The same, as Prometheus's own client has them."""
    for family in families:
        metric = Metric(family.name, family.text, family.type)
        metric.samples = [Sample(name, labels, value) for name, labels, value in family.samples]
        yield metric
