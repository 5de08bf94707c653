"""What the page of one VM shows: its lifetimes, its charges with their prices, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from costguard.dashboard.asked import never_seen
from costguard.dashboard.rows import Row, rows_of
from costguard.dashboard.source import Source
from costguard.engine import fleet, history
from costguard.engine.accrual import accrual_at
from costguard.engine.history import LifetimeView, StorageView
from costguard.engine.telling import correspondence
from costguard.engine.telling.correspondence import Entry
from costguard.model.access import Principal
from costguard.model.instance import InstanceKey
from costguard.model.price import Price
from costguard.store import facts, prices
from costguard.store import fleet as stored_fleet
from costguard.store.facts import StoredFact

_FACTS = 100
_SAID = 60


@dataclass(frozen=True, slots=True)
class Vm:
    row: Row
    lifetimes: Sequence[LifetimeView]
    storage: Sequence[StorageView]
    prices: Mapping[int, Price]
    facts: Sequence[StoredFact]
    said: Sequence[Entry]
    facts_shown: int = _FACTS
    said_shown: int = _SAID


def vm_page(source: Source, key: InstanceKey, now: datetime, me: Principal | None = None) -> Vm:
    """Raises BadAddress where no such VM was ever seen."""
    with source.database.read() as connection:
        found = stored_fleet.instance_id(connection, key)
        if found is None:
            raise never_seen(key)
        accrual = accrual_at(connection, now)
        views = fleet.views(connection, accrual, source.rules.limits, [found])
        (row,) = rows_of(connection, views, source.rules, now, me)
        lifetimes = history.lifetimes_of(connection, accrual, found)
        return Vm(
            row=row,
            lifetimes=lifetimes,
            storage=history.storage_of(connection, accrual, found),
            prices=prices.by_id(connection),
            facts=facts.read(connection, project=key.project, gce_id=key.gce_id, limit=_FACTS),
            said=correspondence.of_vm(connection, found, [run.stored.id for run in lifetimes], _SAID),
        )
