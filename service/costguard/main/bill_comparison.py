"""Comparing the ledger with Google's bill: a task of the daemon."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from costguard.bill.comparing import BillComparer, Compared
from costguard.bill.sums import SoldAs
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.gce.sku import subject
from costguard.model.ports import Clock
from costguard.settings import Settings


def sold_as(words: str) -> SoldAs | None:
    """Reads in a SKU's words what it prices. An export names no usage type, and of Spot SKUs the words say it."""
    lower = words.lower()
    is_spot = "spot" in lower or "preemptible" in lower
    priced = subject(words, "Preemptible" if is_spot else "OnDemand")
    return None if priced is None else SoldAs(priced[0], priced[1].value)


def comparer(settings: Settings, database: Database) -> BillComparer:
    return BillComparer(database, sold_as, gpu_only=settings.watch.vms_without_gpu == "ignore")


@dataclass(frozen=True, slots=True)
class BillTask:
    """The daemon's task: compares what is new, and costs a few queries where nothing is."""

    comparer: BillComparer
    clock: Clock

    def run(self, lease: Lease, stop: threading.Event) -> Compared:  # noqa: ARG002 each day is a short transaction
        return self.comparer.run(self.clock.now(), lease)
