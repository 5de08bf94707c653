"""Runs one process of the guard, built of the real parts as `main` builds it, around a fuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.simulation.crashing import CrashPoint, FragileDatabase, Killed
from tests.simulation.wire import URL, RequestsAdapter, Wire

from costguard.access import signing
from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.daemon.reconcile import PassReport
from costguard.daemon.shard_keeper import ShardKeeper
from costguard.db import lease as leases
from costguard.db.lease import Lease
from costguard.errors import PriceSourceError, StoreError
from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.jobs.reports.agent_events import KEY_NAME, AgentEvents, AgentTokens
from costguard.jobs.reports.listening import Listening
from costguard.jobs.submit.assess import Assessor
from costguard.jobs.submit.submit import JobService
from costguard.jobs.submit.where.targets import LaunchTargets
from costguard.ledger import price_refresh
from costguard.main.checkpoints import data_places
from costguard.main.guard import built
from costguard.messages.clicks import InteractionHandler
from costguard.model.observation import Observation
from costguard.model.ports import Checkpoints, Clock
from costguard.settings import Settings
from costguard.slack.incoming import InteractionDispatcher, SignedRequests
from costguard_sandbox.slack.access import SIGNING_SECRET

_PART = "everything"  # of its machine, which sleeps as a whole
_PATIENCE = timedelta(minutes=1)  # a press is waited for, however slow the machine


@dataclass(frozen=True, slots=True)
class Place:
    """The place where a guard is started: all that outlives it. `new_id` gives the ids of jobs."""

    database: FragileDatabase
    clock: Clock
    wire: Wire
    shelf: Checkpoints
    new_id: Callable[[], str]
    saw: Callable[[Observation], object]  # called with each look at a project
    waits: Callable[[float], bool]  # what a pause before a repeated request does
    settings: Settings
    elapsed_s: Callable[[], float]  # whatever the guard's clock says
    has_signs: bool  # of life, of its parts
    is_shared: bool = False  # with a second replica


class _Cloud(ComputeCloud):
    """Says what it saw, so that the oracle knows what the guard can know."""

    saw: Callable[[Observation], object]

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        observation = super().observe(project, operations_since)
        self.saw(observation)
        return observation


class Process:
    """A process of the guard, until `close` or the end of its fuse. `number` tells it from those before it."""

    def __init__(self, place: Place, number: int, fuse: CrashPoint) -> None:
        self._clock = place.clock
        self._wire = place.wire
        self._holder = f"guard-{number}"
        self.lease: Lease | None = None
        self.fuse = fuse
        self.database = place.database.of_process(fuse)
        made = place.settings
        adapter = RequestsAdapter(place.wire)
        cloud = _Cloud(URL, place.clock, wait=place.waits, monotonic=self._seconds, adapter=adapter)
        cloud.saw = place.saw
        self.cloud = cloud
        self._catalogue = CatalogPrices(URL, adapter=adapter)
        self._stack = ExitStack()
        self._stack.enter_context(closing(cloud))
        self._listening = Listening(place.clock, self._seconds, place.elapsed_s)
        if place.has_signs:
            self._listening.expect(_PART)
        self.guard = self._stack.enter_context(
            built(
                made, place.clock, self.database, cloud, place.shelf, monotonic=self._seconds,
                listening=self._listening,
            )
        )  # fmt: skip
        assert self.guard.messaging is not None
        self.messaging = self.guard.messaging
        rules = self.guard.rules
        launching = LaunchTargets(lambda: made.watch.projects, cloud.shape)
        buckets, code = data_places(made, {}), self.guard.code
        assessor = Assessor(self.database, place.clock, rules, launching, place.shelf, buckets, code)
        self.jobs = JobService(self.database, place.clock, rules, assessor, launching, place.new_id, lambda: None)
        self._is_shared = place.is_shared
        self.shards = ShardKeeper(
            self.database, self._holder, self.guard.reconciler.watched, now=lambda _connection: self._clock.now(),
            elapsed_s=self._seconds,
        )  # fmt: skip
        tokens = AgentTokens(signing.kept(self.database, KEY_NAME, place.clock.now()))
        self.agents = AgentEvents(self.database, place.clock, tokens, lambda: None)
        self._handler = InteractionHandler(
            self.database, place.clock, rules, self.messaging.notifier, self.messaging.reminders.cards,
            lambda: None, _PATIENCE,
        )  # fmt: skip
        dispatcher = InteractionDispatcher(self._handler.click, self._handler.command)
        self._door = SignedRequests(SIGNING_SECRET, place.clock, dispatcher)

    def is_awake(self) -> None:
        self._listening.sign(_PART)

    def hold(self) -> bool:
        """Says whether it may act: the lease, got or renewed. Raises LeaseLost."""
        now = self._clock.now()
        if self.lease is None:
            self.lease = leases.acquire(self.database, LEASE, self._holder, LEASE_TTL, now)
        else:
            self.lease = leases.renew(self.database, self.lease, LEASE_TTL, now)
        self.look_back()
        return self.lease is not None

    def look_back(self) -> None:
        """Looks back, as the daemon does every three seconds, which is between any two things that it does here."""
        if self.lease is not None:
            self.guard.marking.look(self.lease)

    def read_prices(self) -> bool:
        """Says whether the catalogue could be read."""
        try:
            price_refresh.record(self.database, self._catalogue.fetch(), self._clock.now(), self.lease)
        except PriceSourceError:
            return False
        return True

    def measure(self) -> None:
        if self.guard.idle_watch is not None:
            self.guard.idle_watch.record(self.guard.idle_watch.read(), self.lease)

    def run_pass(self) -> PassReport:
        """Runs one pass, and what follows it, as the daemon has it."""
        report = self.guard.reconciler.run(self.lease, shards=self.shards if self._is_shared else None)
        for follow in self.guard.after_pass.values():
            assert self.lease is not None
            follow(self.lease)
        self.look_back()
        return report

    def look(self) -> PassReport:
        """Looks at its projects alone, as a replica does that does not act."""
        return self.guard.reconciler.look(self.shards)

    def turn(self) -> None:
        """Takes one turn of the jobs, and looks at checkpoints whose turn it is."""
        assert self.lease is not None
        self.guard.jobs.advance(self.lease, None)
        self.guard.jobs.watch.run(self.lease)
        self.look_back()

    def look_up(self) -> bool:
        """Says whether a person was met, so that a pass follows."""
        return self.messaging.lookups.run(self.lease)

    def deliver(self) -> timedelta | None:
        wait = self.messaging.outbox.deliver(self.lease)
        self.look_back()
        return wait

    def press(self, headers: Mapping[str, str], body: bytes) -> int:
        """Presses a button, and returns Slack's answer. What was handed on is over as well when this returns.

        A process that ends in what was handed on ends as a whole: of a person never met before, the press is lost.
        """
        kills = self.fuse.kills
        status = self._door.interaction(headers, body).status
        if self.fuse.kills > kills:
            raise Killed
        return status

    def close(self) -> None:
        self._wire.step = lambda _where: None  # what a dead process closes is no step of it
        with suppress(StoreError):
            self._handler.close()
        self._stack.close()

    def begin(self) -> None:
        """Makes requests over the wire steps of this process from now on."""
        self._wire.step = self._step

    def _step(self, where: str) -> None:
        self.fuse.step(where, can_freeze=where.startswith("after"))

    def _seconds(self) -> float:
        return self._clock.now().timestamp()
