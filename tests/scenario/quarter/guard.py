"""One process of the guard, built of the real parts, around a fuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection
from tests.scenario.quarter.crashing import FragileCloud, FragileDatabase, FragileNotifier, Fuse, Killed

from costguard.access.rules import Rules
from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.daemon.reconcile import PassReport, Reconciler
from costguard.db import lease as leases
from costguard.db.lease import Lease
from costguard.gce.client import ComputeCloud
from costguard.ledger.idle_watch import IdleWatch
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.messages.clicks import InteractionHandler
from costguard.messages.outbox import Compose, Composed, Outbox, Withdrawn
from costguard.messages.recipients import AccountLookups
from costguard.messages.reminder import ReminderComposer
from costguard.model.message import EphemeralContent
from costguard.model.ports import Clock
from costguard.reminders.execute import LiveExecutor
from costguard.reminders.message_rows import StoredMessage
from costguard.reminders.stop_case import ByTheRules
from costguard.slack.client import SlackNotifier
from costguard.slack.incoming import InteractionDispatcher, SignedRequests
from costguard_sandbox.slack.access import BOT_TOKEN, SIGNING_SECRET

PROJECT = "acme-training"
_PATIENCE = timedelta(minutes=1)  # a press is waited for, however slow the machine


@dataclass(frozen=True, slots=True)
class Place:
    """Where a guard is started: all that outlives it. `loses` says whether the answer to a stop is lost."""

    database: FragileDatabase
    endpoint: str
    clock: Clock
    rules: Rules
    loses: Callable[[], bool]


class Guard:
    """Until `close` or the end of its fuse. `number` tells it from those before it."""

    def __init__(self, place: Place, number: int, fuse: Fuse) -> None:
        rules, clock = place.rules, place.clock
        self._clock = clock
        self._holder = f"guard-{number}"
        self.lease: Lease | None = None
        self.database = place.database
        self._compute = ComputeCloud(place.endpoint, clock, wait=lambda _: False, monotonic=self._seconds)
        self.cloud = FragileCloud(self._compute, fuse, place.loses)
        self.notifier = FragileNotifier(SlackNotifier(BOT_TOKEN, f"{place.endpoint}/slack/api/"), fuse)
        self._reminders = ReminderComposer(rules)
        compose = _ByKind({"reminder": self._reminders, "ephemeral": _ephemeral})
        self.outbox = Outbox(
            self.database, self.notifier, compose, clock, rules.channel, self._reminders.changed, self._seconds
        )
        self._lookups = AccountLookups(self.database, self.notifier, clock)
        executor = LiveExecutor(self.database, self.cloud, clock, ByTheRules(rules))
        belonging = Belonging(tuple(rules.presets.values()), OwnerRules(domain="example.com"))
        self._reconciler = Reconciler(
            self.database, self.cloud, clock, [PROJECT], rules, belonging, 1, self._lookups.enqueue, executor
        )
        self._idle = IdleWatch(self.database, self.cloud, clock, [PROJECT], rules.presets, timedelta(hours=3))
        self._rules = rules
        self.door, self._handler = self._entrance()

    def hold(self) -> bool:
        """Whether it may act: the lease, got or renewed. Raises LeaseLost."""
        now = self._clock.now()
        if self.lease is None:
            self.lease = leases.acquire(self.database, LEASE, self._holder, LEASE_TTL, now)
        else:
            self.lease = leases.renew(self.database, self.lease, LEASE_TTL, now)
        return self.lease is not None

    def measure(self) -> None:
        self._idle.record(self._idle.read(), self.lease)

    def run_pass(self) -> PassReport:
        return self._reconciler.run(self.lease)

    def look_up(self) -> bool:
        """Whether someone was met, so that a pass follows."""
        return self._lookups.run(self.lease)

    def deliver(self) -> timedelta | None:
        return self.outbox.deliver(self.lease)

    def press(self, headers: Mapping[str, str], body: bytes) -> int:
        """What Slack is answered. What was handed on to another thread is over as well when this returns.

        A process that ends in that thread ends as a whole: of someone never met before, the press is lost with it.
        """
        kills = self.database.fuse.kills
        try:
            status = self.door.interaction(headers, body).status
        finally:
            self._handler.close()
            self.door, self._handler = self._entrance()
        if self.database.fuse.kills > kills:
            raise Killed
        return status

    def close(self) -> None:
        self._handler.close()
        self._compute.close()
        self.database.close()

    def _entrance(self) -> tuple[SignedRequests, InteractionHandler]:
        handler = InteractionHandler(
            self.database, self._clock, self._rules, self.notifier, self._reminders.cards, lambda: None, _PATIENCE
        )
        dispatcher = InteractionDispatcher(handler.click, handler.command)
        return SignedRequests(SIGNING_SECRET, self._clock, dispatcher), handler

    def _seconds(self) -> float:
        return self._clock.now().timestamp()


class _ByKind:
    def __init__(self, composers: Mapping[str, Compose]) -> None:
        self._composers = composers

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        return self._composers[message.kind](connection, message, now)


def _ephemeral(connection: Connection, message: StoredMessage, now: datetime) -> Composed:
    return Composed(EphemeralContent(str(message.data["text"])), shown="", is_final=True)
