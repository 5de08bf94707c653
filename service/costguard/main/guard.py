"""Builds the watching process from the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from costguard.access.rules import Rules
from costguard.checkpoints.client import InScaledTime
from costguard.clock import SystemClock
from costguard.daemon import feed_state
from costguard.daemon.by_hand import PassByHand
from costguard.daemon.catalogue import PriceCatalogue
from costguard.daemon.feed import FeedTask
from costguard.daemon.jobs_round import JobsRound
from costguard.daemon.listing_turns import ListingTurns
from costguard.daemon.listings import RHYTHM
from costguard.daemon.looker import LookPace
from costguard.daemon.marking import Marking
from costguard.daemon.meters import WatchMeters
from costguard.daemon.reconcile import PassActs, Reconciler
from costguard.daemon.shard_keeper import TAKEOVER
from costguard.db.lease import Lease, elapsed_s
from costguard.db.transaction import Database
from costguard.db.version import bring_up_to_date
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices, snapshot_prices
from costguard.gce.vertex.look import regions_to_watch
from costguard.jobs.reports.listening import Listening
from costguard.jobs.submit.code import CodeArchives
from costguard.ledger import price_refresh
from costguard.ledger.discovery.watch import Discovery, WatchList
from costguard.ledger.idle.watch import IdleWatch
from costguard.ledger.observe import Belonging
from costguard.main.checkpoints import checkpoints, code_archives
from costguard.main.feed import feed, signs
from costguard.main.ids import new_holder
from costguard.main.jobs import jobs
from costguard.main.messaging import Messaging, messaging, webhooks
from costguard.main.schedules import schedules_turn
from costguard.main.trackers import trackers
from costguard.model.ports import Checkpoints, Clock
from costguard.model.price import Price
from costguard.processes.loose import LooseTurns
from costguard.reminders.execute import LiveExecutor, ShadowExecutor
from costguard.reminders.stop_case import ByTheRules
from costguard.schedules.turn import SchedulesTurn
from costguard.settings import Settings
from costguard.spend.budgets import BudgetWatch
from costguard.trackers.delivery import Trackers
from costguard.webhooks.delivery import Webhooks


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
    jobs: JobsRound
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
    catalogue: PriceCatalogue
    after_pass: Mapping[str, Callable[[Lease], object]]

    @property
    def by_hand(self) -> PassByHand:
        """Returns the parts of a pass run by hand."""
        return PassByHand(
            database=self.database,
            holder=self.holder,
            speed=self.speed,
            marking=self.marking,
            catalogue=self.catalogue,
            discovery=self.discovery,
            reconciler=self.reconciler,
            after_pass=self.after_pass,
            lookups=self.messaging.lookups if self.messaging is not None else None,
            schedules=self.schedules,
            jobs=self.jobs,
            idle_watch=self.idle_watch,
            outbox=self.messaging.outbox if self.messaging is not None else None,
            webhooks=self.webhooks,
            trackers=self.trackers,
        )


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


def _catalogue(settings: Settings, database: Database, clock: Clock) -> PriceCatalogue:
    def fetch() -> Sequence[Price]:
        return CatalogPrices(settings.prices.endpoint, with_vertex=settings.watch.vertex == "watch").fetch()

    return PriceCatalogue(database, clock, fetch, settings.prices.refresh_every, settings.prices.enabled)


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
    turns = ListingTurns(partial(feed_state.streams, rhythm=rhythm))
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
    enqueue = parts.lookups.enqueue if parts is not None else None
    acts, pace = PassActs(enqueue, executor, listening), _pace(settings, speed)
    reconciler = Reconciler(database, cloud, clock, watched, rules, belonging, pace, acts)
    notify = parts.notifications.intend if parts is not None else None
    work = jobs(settings, database, cloud, stored, clock, monotonic, listening, notify)
    budgets = BudgetWatch(database, clock, rules.budgets, teams=rules.teams)
    notifications = parts.after_pass if parts is not None else {}  # they report what the budgets found
    with (
        webhooks(settings, database, clock, meters.delivery) as hooks,
        trackers(settings, database, clock, meters.tracker) as logged_to,
        feed(settings.feed, database, cloud, clock, belonging, beats) as events,
    ):
        yield Guard(
            settings=settings,
            clock=clock,
            database=database,
            marking=marking,
            cloud=cloud,
            rules=rules,
            reconciler=reconciler,
            budgets=budgets,
            messaging=parts,
            idle_watch=_idle_watch(settings, rules, database, cloud, clock, speed),
            jobs=work,
            code=code_archives(settings, database),
            holder=new_holder(),
            speed=speed,
            webhooks=hooks,
            trackers=logged_to,
            meters=meters,
            listening=listening,
            discovery=Discovery(database, cloud, clock, watched.scope) if watched.scope.places else None,
            feed=events,
            loose=loose,
            schedules=schedules_turn(settings, rules, database, clock, speed),
            catalogue=_catalogue(settings, database, clock),
            after_pass={"budgets": budgets.look, **notifications},
        )
