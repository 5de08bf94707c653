"""Runs one pass by hand, with all that a daemon does next to its passes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from costguard.daemon.catalogue import PriceCatalogue
from costguard.daemon.jobs_round import JobsRound
from costguard.daemon.lease_keeper import LEASE, LEASE_TTL, kept
from costguard.daemon.marking import Marking
from costguard.daemon.reconcile import PassReport, Reconciler
from costguard.daemon.shard_keeper import all_projects
from costguard.db import lease as leases
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import LeaseLost
from costguard.ledger.discovery.watch import Discovery
from costguard.ledger.idle.watch import IdleWatch
from costguard.messages.outbox import Outbox
from costguard.messages.recipients import AccountLookups
from costguard.reminders.watched import FleetPlan
from costguard.schedules.turn import SchedulesTurn
from costguard.trackers.delivery import Trackers
from costguard.webhooks.delivery import Webhooks

_SENDINGS = 10
_LONGEST_WAIT = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class PassByHand:
    """The parts of a pass. `holder` names this process, and `speed` is the clock's seconds in a real second.

    `discovery` is None where only listed projects are watched, `outbox` and `lookups` where no messages are sent, and
    `idle_watch` where idleness is not asked about.
    """

    database: Database
    holder: str
    speed: float
    marking: Marking
    catalogue: PriceCatalogue
    discovery: Discovery | None
    reconciler: Reconciler
    after_pass: Mapping[str, Callable[[Lease], object]]
    lookups: AccountLookups | None
    schedules: SchedulesTurn
    jobs: JobsRound
    idle_watch: IdleWatch | None
    outbox: Outbox | None
    webhooks: Webhooks
    trackers: Trackers

    def run(self) -> PassReport:
        """Refreshes old prices, runs one pass, and then everything that a daemon does next to it, once.

        Raises LeaseLost while a daemon holds the lease.
        """
        lease = leases.acquire(self.database, LEASE, self.holder, LEASE_TTL)
        if lease is None:
            raise LeaseLost(
                "A Costguard daemon holds the lease and runs the passes.",
                "Look at what it does with `costguard ps` and `costguard events`, or stop it first.",
            )
        watched = self.reconciler.watched
        with kept(self.database, lease), all_projects(self.database, self.holder, watched) as shards:
            self.marking.look(lease)
            self.catalogue.refresh_old(lease)
            if self.discovery is not None and self.discovery.is_due:
                self.discovery.run(lease)
            report = self.reconciler.run(lease, shards=shards)
            if self.lookups is not None and self.lookups.run(lease):
                report = _and_then(report, self.reconciler.act(lease))
            for follow in self.after_pass.values():
                follow(lease)
            self.schedules.run(lease)
            self.jobs.advance(lease, None)
            if self.idle_watch is not None:
                self.idle_watch.record(self.idle_watch.read(), lease)
            self._send(lease)
            self.webhooks.deliver(lease)
            self.trackers.deliver(lease)
            self.marking.look(lease)
            return report

    def _send(self, lease: Lease) -> None:
        """Sends due messages, as far as Slack takes them at once; the rest stays for the next pass or a daemon."""
        if self.outbox is None:
            return
        pause = threading.Event()
        for _ in range(_SENDINGS):
            wait = self.outbox.deliver(lease, None)
            if wait is None or wait > _LONGEST_WAIT:
                return
            pause.wait(wait.total_seconds() / self.speed)


def _and_then(report: PassReport, later: FleetPlan) -> PassReport:
    """Adds the actions decided after Slack accounts were looked up."""
    new = tuple(action for action in later.actions if action not in report.plan.actions)
    return replace(report, plan=FleetPlan(later.decisions, report.plan.actions + new))
