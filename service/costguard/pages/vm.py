"""What the page of one VM shows: its lifetimes, its charges with their prices, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.events import facts
from costguard.ledger import fleet_rows as stored_fleet
from costguard.ledger import history, prices
from costguard.ledger.accrual import accrual_at
from costguard.ledger.history import LifetimeView, StorageView
from costguard.messages import message_log
from costguard.messages.message_log import LogEntry
from costguard.model.access import Principal
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Lifetime
from costguard.model.price import Price
from costguard.pages.asked import never_seen
from costguard.pages.folding import Folded, folded
from costguard.pages.rows import Row, rows_of
from costguard.pages.source import Source
from costguard.reminders import gather
from costguard.reminders.not_stopped import StopDiagnosis
from costguard.spend import fleet

_FACTS = 100
_SAID = 60
_RUNS = 60  # a VM that is started every morning has hundreds
_STRIP = timedelta(days=30)
_LEAST = 3  # so wide at least, to be seen


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run on a bar of a thousand parts; `how` it ended, or "open". Rounded for drawing alone."""

    x: int
    width: int
    how: str
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Strip:
    """When it ran, from `since` until now; a month at most."""

    since: datetime
    stretches: Sequence[Stretch]


@dataclass(frozen=True, slots=True)
class Vm:
    row: Row
    not_stopped: StopDiagnosis
    lifetimes: Sequence[LifetimeView]  # the latest
    runs: int  # in all
    strip: Strip | None  # None: it did not run within a month
    storage: Sequence[StorageView]
    prices: Mapping[int, Price]
    facts: Sequence[Folded]
    said: Sequence[LogEntry]
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
            not_stopped=gather.why_not_stopped(connection, source.rules, found, row.view.idle, now),
            lifetimes=lifetimes[:_RUNS],
            runs=len(lifetimes),
            strip=_strip([run.stored.lifetime for run in lifetimes], now),
            storage=history.storage_of(connection, accrual, found),
            prices=prices.by_id(connection),
            facts=folded(facts.read(connection, project=key.project, gce_id=key.gce_id, limit=_FACTS)),
            said=message_log.of_vm(connection, found, [run.stored.id for run in lifetimes], _SAID),
        )


def _strip(lifetimes: Sequence[Lifetime], now: datetime) -> Strip | None:
    shown = [run for run in lifetimes if (run.ended_at or now) > now - _STRIP]
    if not shown:
        return None
    since = max(now - _STRIP, min(run.started_at for run in shown))
    whole = max(now - since, timedelta(seconds=1))

    def place(moment: datetime) -> int:
        return 1000 * (min(now, max(since, moment)) - since) // whole

    stretches = []
    for run in shown:
        x = min(place(run.started_at), 1000 - _LEAST)
        how = "open" if run.ended_at is None else run.end_reason.value if run.end_reason is not None else "unknown"
        width = max(_LEAST, place(run.ended_at or now) - x)
        stretches.append(Stretch(x, width, how, run.started_at, run.ended_at))
    return Strip(since, stretches)
