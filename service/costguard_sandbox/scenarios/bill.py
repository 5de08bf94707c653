"""Google's bill of a scenario: a table of the simulated BigQuery that its own meter fills, with errors in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from costguard_sandbox.bigquery import DETAILED_SCHEMA, Table
from costguard_sandbox.gce.billing import BillError, ExportOptions, billing_export
from costguard_sandbox.scenarios.keys import Keys
from costguard_sandbox.world import World

_DAY = timedelta(days=1)
_LATEST = timedelta(hours=84)  # rows come up to 72 hours late, in appends of some hours
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ScenarioBill:
    """`errors` are planted on the last day whose rows have all come when the scenario begins."""

    table: str
    errors: tuple[BillError, ...]

    def offer(self, world: World, start: datetime, began: datetime) -> None:
        day = (start - _LATEST).date() - _DAY
        options = ExportOptions(errors=self.errors, error_days=(day,))
        world.bigquery.tables[self.table] = Table(DETAILED_SCHEMA, _Rows(world, began, options))


@dataclass(slots=True)
class _Rows:
    """The rows of the table, made again once an hour of the cloud's clock."""

    world: World
    began: datetime
    options: ExportOptions
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _until: datetime | None = None
    _made: Sequence[tuple[datetime, Mapping[str, Any]]] = ()

    def __call__(self) -> Sequence[tuple[datetime, Mapping[str, Any]]]:
        world = self.world
        with self._lock, world.settled():
            now = world.timeline.now
            if self._until is None or now - self._until >= _HOUR:
                machines = world.every_vm(), world.storage.ever, world.prices
                export = billing_export(*machines, self.began, now, self.options)
                self._made, self._until = list(zip(export.export_times, export.rows, strict=True)), now
            return [one for one in self._made if one[0] <= now]


def read_bill(keys: Keys) -> ScenarioBill:
    """Reads the table [bill]: its name in BigQuery, and the kinds of errors that are planted in it."""
    table = keys.text("table")
    if table.count(".") != 2:
        raise keys.wrong("table", f"PROJECT.DATASET.TABLE, not {table!r}")
    errors = keys.texts("errors") if keys.has("errors") else ()
    unknown = sorted(set(errors) - set(BillError))
    if unknown:
        raise keys.wrong("errors", f"some of {', '.join(BillError)}, not {unknown[0]!r}")
    keys.done()
    return ScenarioBill(table, tuple(map(BillError, errors)))
