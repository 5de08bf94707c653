"""The daemon's tasks with Google's bill, built from the settings: reading it, and comparing the ledger with it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from costguard.bigquery.client import ExportTable
from costguard.bill.comparing import BillComparer
from costguard.bill.reading import BillReading
from costguard.bill.sums import SoldAs
from costguard.db.transaction import Database
from costguard.gce.sku import subject
from costguard.model.ports import Clock
from costguard.settings import Settings
from costguard.settings.bill import BillSection


def reading(settings: BillSection, database: Database, clock: Clock) -> BillReading | None:
    """Returns the reading of the export's table; None where the settings name none."""
    name = settings.table
    if name is None:
        return None

    @contextmanager
    def opened(stop: threading.Event) -> Iterator[ExportTable]:
        table = ExportTable(
            name,
            billed_project=settings.billed_project or "",
            location=settings.location,
            most_bytes=settings.most_bytes,
            endpoint=settings.endpoint,
            wait=stop.wait,
            jitter=lambda: random.uniform(0.5, 1.0),
        )
        with closing(table):
            yield table

    return BillReading(database, clock, opened, settings.read_every, settings.first_days)


def sold_as(words: str) -> SoldAs | None:
    """Reads in a SKU's words what it prices. An export names no usage type, and of Spot SKUs the words say it."""
    lower = words.lower()
    is_spot = "spot" in lower or "preemptible" in lower
    priced = subject(words, "Preemptible" if is_spot else "OnDemand")
    return None if priced is None else SoldAs(priced[0], priced[1].value)


def comparer(settings: Settings, database: Database) -> BillComparer:
    return BillComparer(database, sold_as, gpu_only=settings.watch.vms_without_gpu == "ignore")
