"""Builds the watching process from the settings."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from costguard.access import signing
from costguard.access.rules import Rules
from costguard.checkpoints.client import InScaledTime
from costguard.clock import SystemClock
from costguard.daemon import feed_state, restoring
from costguard.daemon.feed import FeedTask
from costguard.daemon.lease_keeper import LEASE, LEASE_TTL, kept
from costguard.daemon.listing_turns import ListingTurns
from costguard.daemon.listings import RHYTHM
from costguard.daemon.looker import LookPace
from costguard.daemon.marking import Marking
from costguard.daemon.meters import WatchMeters
from costguard.daemon.reconcile import PassActs, PassReport, Reconciler
from costguard.daemon.shard_keeper import TAKEOVER, all_projects
from costguard.db import lease as leases
from costguard.db.health_rows import catalogue_read_at
from costguard.db.lease import Lease, elapsed_s
from costguard.db.transaction import Database
from costguard.db.version import bring_up_to_date
from costguard.deadlines.planner import Planner
from costguard.errors import LeaseLost, PriceSourceError
from costguard.gce.boot import metadata_items
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices, snapshot_prices
from costguard.gce.vertex.look import regions_to_watch
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.limits.admission import Admission, LaunchBounds
from costguard.jobs.act.planning import Planning
from costguard.jobs.act.turn import JobsTurn, TurnReport, TurnRules, TurnServices
from costguard.jobs.reports.agent_events import KEY_NAME, AgentTokens
from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.jobs.reports.listening import Listening
from costguard.jobs.rows.history.zone_advice import RegionAdvice, ZoneAdvice
from costguard.jobs.rows.limits.budget_holds import BudgetHolds
from costguard.jobs.submit.code import CodeArchives
from costguard.ledger import price_refresh
from costguard.ledger.discovery.watch import Discovery, WatchList
from costguard.ledger.idle.watch import IdleWatch
from costguard.ledger.observe import Belonging
from costguard.main.checkpoints import checkpoints, code_archives
from costguard.main.feed import feed, signs
from costguard.main.ids import new_holder, new_job_id
from costguard.main.messaging import Messaging, messaging, webhooks
from costguard.main.schedules import schedules_turn
from costguard.main.trackers import trackers
from costguard.main.vm_tools import vm_tools
from costguard.model.ports import Checkpoints, Clock
from costguard.model.price import Price
from costguard.processes.loose import LooseTurns
from costguard.processes.wire import SlackTrouble
from costguard.reminders.execute import LiveExecutor, ShadowExecutor
from costguard.reminders.stop_case import ByTheRules
from costguard.reminders.watched import FleetPlan
from costguard.schedules.turn import SchedulesTurn
from costguard.settings import Settings
from costguard.spend.budgets import BudgetWatch
from costguard.sweeps.gather import common_ceilings
from costguard.sweeps.turn import SweepsTurn
from costguard.trackers.delivery import Trackers
from costguard.webhooks.delivery import Webhooks
from costguard_vm.bundle import bundle

if TYPE_CHECKING:
    from costguard.gce.client import ComputeCloud


@dataclass(frozen=True, slots=True)
class Jobs:
    """The parts that advance jobs, and the sweeps that they are members of."""

    sweeps: SweepsTurn
    turn: JobsTurn
    holds: BudgetHolds
    watch: CheckpointWatch


def jobs(
    settings: Settings,
    rules: Rules,
    database: Database,
    cloud: ComputeCloud,
    checkpoints: Checkpoints,
    clock: Clock,
    monotonic: Callable[[], float],
    listening: Listening,
) -> Jobs:
    now = clock.now()
    with database.write() as connection:
        tokens = AgentTokens(signing.key(connection, KEY_NAME, now))
        guard_id = signing.key(connection, "guard-id", now).hex()[:12]
    maker = VmMaker(
        guard_id=guard_id,
        guard_url=rules.jobs.guard_url,
        guard_ca=rules.jobs.guard_ca,
        token_of=tokens.of,
        metadata=_metadata,
        owners=settings.owners.rules,
        cancel_grace=rules.jobs.terms.cancel_grace,
        quick_crash=rules.jobs.terms.quick_crash,
        heartbeat=rules.jobs.heartbeat,
        logs=rules.jobs.logs,
        profiles=rules.jobs.profiles,
        stage=rules.jobs.stage,
        tools=vm_tools(),
    )
    holds = BudgetHolds(database, rules)
    turn = JobsTurn(
        database,
        clock,
        TurnServices(cloud.launcher, maker, checkpoints, cloud.shape, restoring.begin),
        TurnRules(rules.jobs.terms, holds, LaunchBounds(common_ceilings, Admission(rules.fleet_limits, rules.teams))),
        planning=Planning(
            Planner(explains=True, waiting_saves=rules.jobs.terms.waiting_saves / 100),
            advice=ZoneAdvice(cloud.preemption_rate),
            capacity=RegionAdvice(cloud.capacity_advice, cloud.spot_prices),
        ),
        monotonic=monotonic,
        listening=listening,
    )
    watch = CheckpointWatch(database, clock, checkpoints, rules.jobs.terms)
    return Jobs(SweepsTurn(database, clock, new_job_id), turn, holds, watch)


def _metadata(settings: Mapping[str, object], token: str, with_drivers: bool) -> Mapping[str, str]:
    return metadata_items(bundle(), settings, token, with_drivers)


_SENDINGS = 10
_LONGEST_WAIT = timedelta(seconds=2)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Guard:
    """Everything that the process which watches needs, built and ready."""

    settings: Settings
    clock: Clock
    database: Database
    marking: Marking
    cloud: ComputeCloud
    rules: Rules
    reconciler: Reconciler
    budgets: BudgetWatch
    messaging: Messaging | None  # None: no messages are sent
    idle_watch: IdleWatch | None  # None: idleness is not asked about
    jobs: Jobs
    code: CodeArchives
    holder: str
    speed: float  # the clock's seconds in a real second
    webhooks: Webhooks
    trackers: Trackers
    meters: WatchMeters
    listening: Listening
    discovery: Discovery | None  # None: only listed projects are watched
    feed: FeedTask | None  # None: no subscription is pulled
    loose: LooseTurns
    schedules: SchedulesTurn

    def fetch_prices(self) -> Sequence[Price]:
        """Reads the catalogue's prices. Raises PriceSourceError."""
        return CatalogPrices(self.settings.prices.endpoint, with_vertex=self.settings.watch.vertex == "watch").fetch()

    def store_prices(self, fetched: Sequence[Price], fence: Lease | None) -> None:
        price_refresh.record(self.database, fetched, self.clock.now(), fence)

    def refresh_prices(self, fence: Lease | None) -> None:
        """Read the catalogue, where the settings allow it. Raises PriceSourceError."""
        if self.settings.prices.enabled:
            self.store_prices(self.fetch_prices(), fence)

    @property
    def slack_trouble(self) -> SlackTrouble:
        """Returns the trouble that keeps people from being notified. Asks no database."""
        if self.messaging is None:
            return SlackTrouble()
        workspace, channels = self.messaging.outbox.refusals
        return SlackTrouble(workspace=workspace or self.messaging.lookups.trouble, channels=dict(channels))

    @property
    def after_pass(self) -> dict[str, Callable[[Lease], object]]:
        """Returns the steps after each pass, in this order: notifications report what the budgets found."""
        if self.messaging is None:
            return {"budgets": self.budgets.look}
        return {
            "budgets": self.budgets.look,
            "notifications": self.messaging.notifications.intend,
            "digests": self.messaging.digests.intend,
            "first_report": self.messaging.first_report.intend,
            "reservations": self.messaging.reservations.intend,
        }

    def advance_jobs(self, lease: Lease, stop: threading.Event | None) -> TurnReport:
        """Takes one turn of the sweeps, and of the jobs. Raises LeaseLost when another daemon took over."""
        swept = self.jobs.sweeps.run(lease)
        report = self.jobs.turn.run(lease, stop)
        report.troubles += swept.troubles
        self.jobs.holds.tell(lease, self.clock.now())
        if self.messaging is not None and (report.decided or swept.launched or swept.settled):
            self.messaging.notifications.intend(lease)  # a job's owner need not wait for the next pass
        return report

    def run_pass(self) -> PassReport:
        """The catalogue where it is due, one pass, and what was measured. Raises LeaseLost while a daemon acts."""
        lease = leases.acquire(self.database, LEASE, self.holder, LEASE_TTL)
        if lease is None:
            raise LeaseLost(
                "A Costguard daemon holds the lease and runs the passes.",
                "Look at what it does with `costguard ps` and `costguard events`, or stop it first.",
            )
        watched = self.reconciler.watched
        with kept(self.database, lease), all_projects(self.database, self.holder, watched) as shards:
            self.marking.look(lease)
            self._refresh_old_prices(lease)
            if self.discovery is not None and self.discovery.is_due:
                self.discovery.run(lease)
            report = self.reconciler.run(lease, shards=shards)
            if self.messaging is not None and self.messaging.lookups.run(lease):
                report = _and_then(report, self.reconciler.act(lease))
            for follow in self.after_pass.values():
                follow(lease)
            self.schedules.run(lease)
            self.advance_jobs(lease, None)
            if self.idle_watch is not None:
                self.idle_watch.record(self.idle_watch.read(), lease)
            self._send(lease)
            self.webhooks.deliver(lease)
            self.trackers.deliver(lease)
            self.marking.look(lease)
            return report

    def _send(self, lease: Lease) -> None:
        """Sends due messages, as far as Slack takes them at once; the rest stays for the next pass or a daemon."""
        if self.messaging is None:
            return
        pause = threading.Event()
        for _ in range(_SENDINGS):
            wait = self.messaging.outbox.deliver(lease, None)
            if wait is None or wait > _LONGEST_WAIT:
                return
            pause.wait(wait.total_seconds() / self.speed)

    def _refresh_old_prices(self, lease: Lease) -> None:
        with self.database.read() as connection:
            read_at = catalogue_read_at(connection)
        if read_at is not None and self.clock.now() - read_at < self.settings.prices.refresh_every:
            return
        try:
            self.refresh_prices(lease)
        except PriceSourceError as error:  # the last good prices stay in force
            log.error("prices_not_refreshed", error=str(error))


def _and_then(report: PassReport, later: FleetPlan) -> PassReport:
    """The same pass, having decided once more when people were known."""
    new = tuple(action for action in later.actions if action not in report.plan.actions)
    return replace(report, plan=FleetPlan(later.decisions, report.plan.actions + new))


@contextmanager
def opened(
    settings: Settings,
    clock: Clock | None = None,
    speed: float = 1.0,
    wait: Callable[[float], bool] | None = None,
) -> Iterator[Guard]:
    """A guard on a database that is brought to this version and holds at least the shipped prices.

    `wait` passes the seconds before Google is asked again; True cuts the tries short. None: in real time.
    """
    clock = clock or SystemClock()
    url = settings.database.url.get_secret_value()
    bring_up_to_date(url)
    google = ComputeCloud(settings.compute.endpoint, clock, wait=wait, tpu_nodes=settings.watch.tpu_nodes == "watch")
    google.watch_vertex(regions_to_watch(settings.watch.vertex_regions, is_watched=settings.watch.vertex == "watch"))
    with closing(google) as cloud, closing(Database.open(url)) as database:
        price_refresh.seed_snapshot(database, snapshot_prices(), clock.now())
        stored: Checkpoints = checkpoints(settings, os.environ)
        if speed != 1:
            stored = InScaledTime(stored, clock, speed)
        with built(settings, clock, database, cloud, stored, speed) as guard:
            yield guard


def _idle_watch(
    settings: Settings, rules: Rules, database: Database, cloud: ComputeCloud, clock: Clock, speed: float
) -> IdleWatch | None:
    watch, every = settings.watch, settings.idle.every * speed
    if not settings.idle.enabled:
        return None
    watched = WatchList(database, watch.scope)
    return IdleWatch(database, cloud, clock, watched, rules.presets, every, watch.parallel)


def _pace(settings: Settings, speed: float) -> LookPace:
    rhythm, every = RHYTHM.at_speed(speed), settings.watch.every
    turns = ListingTurns(lambda connection, _now: feed_state.streams(connection, rhythm))
    return LookPace(settings.watch.parallel, turns, (2 * every + TAKEOVER) * speed)


def _executor(
    rules: Rules,
    database: Database,
    cloud: ComputeCloud,
    clock: Clock,
    monotonic: Callable[[], float],
    listening: Listening,
) -> LiveExecutor | ShadowExecutor:
    still_due = ByTheRules(rules, lambda: listening.answers_since)
    live = LiveExecutor(database, cloud, clock, still_due, monotonic, rules.stop_through)
    return ShadowExecutor(database, clock, live) if rules.is_shadow else live


def belonging_of(settings: Settings) -> Belonging:
    gpu_only = settings.watch.vms_without_gpu == "ignore"
    return Belonging(settings.preset_list(), settings.owners.rules, gpu_only=gpu_only)


@contextmanager
def built(
    settings: Settings,
    clock: Clock,
    database: Database,
    cloud: ComputeCloud,
    stored: Checkpoints,
    speed: float = 1.0,
    monotonic: Callable[[], float] = elapsed_s,
    listening: Listening | None = None,
) -> Iterator[Guard]:
    """A guard around what reaches outside, which the caller opened and closes. `monotonic` counts seconds."""
    listening, rules = listening or Listening(clock), settings.rules()
    watched, belonging = WatchList(database, settings.watch.scope), belonging_of(settings)
    meters, marking = WatchMeters(), Marking(database, clock)
    marking.settle_in()
    loose = LooseTurns(settings, database, cloud, clock, speed)
    parts = messaging(settings, rules, database, clock, meters.message, loose.unused, monotonic)
    beats = signs(settings, database, clock, speed, meters)
    executor = _executor(rules, database, cloud, clock, monotonic, listening)
    acts = PassActs(parts.lookups.enqueue if parts is not None else None, executor, listening)
    pace = _pace(settings, speed)
    reconciler = Reconciler(database, cloud, clock, watched, rules, belonging, pace, acts)
    work = jobs(settings, rules, database, cloud, stored, clock, monotonic, listening)
    with (
        webhooks(settings, database, clock, meters.delivery) as hooks,
        trackers(settings, database, clock, meters.tracker) as logged_to,
        feed(settings.feed, database, cloud, clock, belonging, beats) as events,
    ):
        yield Guard(
            settings,
            clock,
            database,
            marking,
            cloud,
            rules,
            reconciler,
            BudgetWatch(database, clock, rules.budgets, teams=rules.teams),
            parts,
            _idle_watch(settings, rules, database, cloud, clock, speed),
            work,
            code_archives(settings, database),
            new_holder(),
            speed,
            hooks,
            logged_to,
            meters,
            listening,
            Discovery(database, cloud, clock, watched.scope) if watched.scope.places else None,
            events,
            loose,
            schedules_turn(settings, rules, database, clock, speed),
        )
