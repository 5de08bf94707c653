"""Running totals: what open lifetimes and storage accrue, updated in the transaction of every change.

A span costs the same each second while no price and no month changes, so a group of spans is a rate and an amount:
readers need a few rows, however many VMs run. The totals are good while the basis of the rates holds. Where it does
not (a price came into force, a month began, the ledger was migrated), readers add the ledger up instead, to the same
figures, until a pass has made the totals again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.remembered import remembered
from costguard.db.tables import burn_rates as burn_rates_table
from costguard.db.tables import instances, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.ledger.accrual import Accrual, accrual_at, figures_of
from costguard.ledger.charged.charges import ChargedSpan
from costguard.ledger.labels.label_history import KEEPER_COLUMNS, changes_since
from costguard.ledger.pricing import billed_seconds
from costguard.ledger.running import burn_rates
from costguard.ledger.running import running_total_rows as rows
from costguard.ledger.running.burn_rates import Basis
from costguard.ledger.running.running_total_rows import Group, Kind, OpenSpans, TotalFigures, Totals
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.moments import day_start
from costguard.model.price import is_address

_DAY = timedelta(days=1)
_HOUR_SECONDS = 3600
AT_ONCE = 1000  # instances in one transaction
_NO_KEY = InstanceKey("", "")
_Part = TypeVar("_Part")  # a group, or the value of a label

log = structlog.get_logger(__name__)


class Accruals:
    """Works out what open spans add to the totals, with the rate of each kind worked out once."""

    def __init__(self, accrual: Accrual, steady_since: datetime | None) -> None:
        self._accrual = accrual
        self._steady_since = steady_since
        self._rates: dict[Kind, tuple[int, int, int] | None] = {}

    def of(self, kind: Kind, since: datetime) -> list[tuple[date, TotalFigures]] | None:
        """Returns figures by the days on which it accrues, the last of which goes on; None where not all of the span
        can be priced.
        """
        if kind not in self._rates:
            self._rates[kind] = _rate(self._accrual, span_of(kind, since))
        rate = self._rates[kind]
        if rate is None:
            return None
        figures: list[tuple[date, TotalFigures]] = []
        if self._steady_since is not None and since < self._steady_since:
            # Prices changed since: up to then it is billed as it will be charged.
            billed = self._billed(span_of(kind, since), self._steady_since)
            figures += [(day, _amounts(sums)) for day, sums in billed]
            since = self._steady_since
        day = since.astimezone(UTC).date()
        seconds = billed_seconds(since, day_start(day) + _DAY)
        machine, gpu, storage = rate
        running = int(_is_lifetime(kind))
        amounts = _part(machine, seconds), _part(gpu, seconds), _part(storage, seconds)
        figures.append((day, TotalFigures(*rate, running, *amounts, seconds * running)))
        return figures

    def _billed(self, span: Lifetime | StorageSpan, until: datetime) -> Iterable[tuple[date, list[int]]]:
        days: dict[date, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for day, figures in figures_of(self._accrual.bill(span, None, until)):
            days[day] = [one + other for one, other in zip(days[day], figures, strict=True)]
        return days.items()


def _rate(accrual: Accrual, span: Lifetime | StorageSpan) -> tuple[int, int, int] | None:
    """Nano-dollars an hour of the machine, its GPUs and storage."""
    if isinstance(span, Lifetime):
        kind = span.shape, span.zone, span.provisioning_model
        whole, gpu = accrual.rate(*kind), accrual.gpu_rate(*kind)
        return None if whole is None or gpu is None else (whole.nanos - gpu.nanos, gpu.nanos, 0)
    rate = accrual.storage_rate(span.resource, span.size_mib, span.zone)
    if rate is None:
        return None
    return (rate.nanos, 0, 0) if is_address(span.resource or "") else (0, 0, rate.nanos)


def rates_by_kind(accrual: Accrual) -> Callable[[Kind], int | None]:
    """Returns a function that works out, once for each kind, the nano-dollars an hour of one span of it now; None where
    not all of it can be priced.
    """

    @cache
    def rate_of(kind: Kind) -> int | None:
        rate = _rate(accrual, span_of(kind, accrual.now))
        return None if rate is None else sum(rate)

    return rate_of


def accrued(day: date, figures: TotalFigures, now: datetime) -> Iterator[tuple[date, tuple[int, int, int, int]]]:
    """Yields a row of the totals by day until now: machine, GPU and storage in nano-dollars, and seconds."""
    rates = figures.machine_rate, figures.gpu_rate, figures.storage_rate
    end = day_start(day) + _DAY
    short = max(0, billed_seconds(now, end))
    amounts = figures.machine_nanos, figures.gpu_nanos, figures.storage_nanos
    machine, gpu, storage = (max(0, amount - _part(rate, short)) for amount, rate in zip(amounts, rates, strict=True))
    yield day, (machine, gpu, storage, max(0, figures.seconds - figures.running * short))
    while end < now and any((figures.running, *rates)):
        seconds = billed_seconds(end, min(end + _DAY, now))
        day, end = day + _DAY, end + _DAY
        machine, gpu, storage = (_part(rate, seconds) for rate in rates)
        yield day, (machine, gpu, storage, figures.running * seconds)


def read(
    connection: Connection,
    accrual: Accrual,
    scope: Scope = Scope(),
    by: Collection[str] = Group._fields,
    last: date | None = None,
) -> list[tuple[Group, date, TotalFigures]]:
    """The totals as of this moment, told apart at least by the columns in `by`, of all that can be priced whole.

    Those that accrue after `last` alone may be left out: most days of a year are charged whole.
    """
    if burn_rates.are_current(connection, accrual):
        return list(rows.read(connection, by, scope, last))
    totals = _added_up(Accruals(accrual, _steady_since(accrual)), rows.open_spans(connection))
    return [
        (group, day, TotalFigures(*figures))
        for (group, day), figures in totals.items()
        if scope.holds(group.project, group.preset, group.owner, group.job)
    ]


def by_label(
    connection: Connection, accrual: Accrual, label: str, start: datetime, end: datetime, scope: Scope
) -> dict[tuple[str | None, date], TotalFigures]:
    """Adds up open spans that accrue before `end` and can be priced whole, by the value of a label.

    Left out are VMs whose label changed after `start`.
    """
    steady_since = _steady_since(accrual)

    def read() -> dict[tuple[str | None, date], TotalFigures]:
        sums = _sums_by_label(connection, accrual, label, start, end, scope)
        return {key: TotalFigures(*figures) for key, figures in sums.items() if any(figures)}

    # What is read of thousands of VMs comes to a few sums, and the moment decides of none but through the prices.
    question = (by_label.__qualname__, burn_rates.prices_of(accrual.book), steady_since, label, start, end, scope)
    return remembered(connection, (instances, lifetimes, storage_spans, burn_rates_table), question, read)


def _sums_by_label(
    connection: Connection, accrual: Accrual, label: str, start: datetime, end: datetime, scope: Scope
) -> dict[tuple[str | None, date], list[int]]:
    """Adds up the spans by value, from the totals where these hold. Where the totals are not apart by the values, the
    spans of VMs with the label are read, and the rest is of those without it: of most labels that is most VMs.
    """
    accruals = Accruals(accrual, _steady_since(accrual))
    if not burn_rates.are_current(connection, accrual):
        spans = rows.open_spans_by_label(connection, label, start, end, scope, labelled_alone=False)
        return _summed(accruals, spans)
    column = KEEPER_COLUMNS.get(label)
    sums: dict[tuple[str | None, date], list[int]] = {}
    for group, day, figures in rows.read(connection, [column] if column else [], scope, (end - _DAY).date()):
        _add_row(sums, (_value(group, column), day), figures, 1)
    changed = rows.open_spans(connection, list(changes_since(connection, label, start)))
    mine = (span for span in changed if span.since < end and scope.holds(*span.owned_by))
    left_out = _summed(accruals, ((_value(_group(span), column), span) for span in mine))
    for (value, day), amounts in left_out.items():
        _add_row(sums, (value, day), amounts, -1)
    if column is None:
        labelled = rows.open_spans_by_label(connection, label, start, end, scope, labelled_alone=True)
        for (value, day), amounts in _summed(accruals, labelled).items():
            _add_row(sums, (None, day), amounts, -1)
            _add_row(sums, (value, day), amounts, 1)
    return sums


def _value(group: Group, column: str | None) -> str | None:
    """Returns the value that a group has in its column; None where it has none."""
    return getattr(group, column) or None if column is not None else None


def leave_to_catch_up(connection: Connection) -> None:
    """Drops the basis after thousands of new VMs at once: adding all up at the end of the pass is cheaper than
    following each.
    """
    burn_rates.drop_basis(connection)


@contextmanager
def following(connection: Connection, project: str, gce_ids: Collection[str], now: datetime) -> Iterator[None]:
    """Rates and totals follow what the block changes of these VMs of a project, in the same transaction."""
    with following_all(connection, [InstanceKey(project, gce_id) for gce_id in gce_ids], now):
        yield


@contextmanager
def following_all(connection: Connection, keys: Collection[InstanceKey], now: datetime) -> Iterator[None]:
    """Rates and totals follow what the block changes of VMs of any projects, in the same transaction.

    Where the basis does not hold, it is dropped: the pass makes all totals again once it has recorded everything. The
    rates of what changed are dropped, too: another replica's pass may have worked them out already.
    """
    accrual = accrual_at(connection, now)
    if not burn_rates.are_current(connection, accrual):
        burn_rates.drop_basis(connection)
        yield
        burn_rates.drop(connection, burn_rates.ids_of(connection, keys))
        return
    accruals = Accruals(accrual, _steady_since(accrual))
    before = burn_rates.ids_of(connection, keys)
    change = _added_up(accruals, rows.open_spans(connection, before), -1)
    yield
    after = burn_rates.ids_of(connection, keys)
    _add(change, _added_up(accruals, rows.open_spans(connection, after)))
    rows.add(connection, change)
    burn_rates.keep(connection, now, after)


def follow_charges(connection: Connection, entries: Iterable[ChargedSpan], now: datetime) -> None:
    """Open spans accrue from the moment up to which their charges were stored now."""
    accrual = accrual_at(connection, now)
    if not burn_rates.are_current(connection, accrual):
        burn_rates.drop_basis(connection)
        return
    # Most go on from the same midnight, in a few groups.
    moved: dict[tuple[Kind, tuple[str, str, str, str], datetime, tuple[str, str]], int] = defaultdict(int)
    for entry in entries:
        due = entry.due
        if due.span.ended_at is None:
            whose, kind = due.attribution, _kind(due.span)
            owned_by = due.span.key.project, whose.preset, whose.owner, whose.job
            moved[kind, owned_by, due.charged_to or due.span.started_at, due.kept_by] -= 1
            moved[kind, owned_by, entry.charged_to, due.kept_by] += 1
    spans = (
        OpenSpans(kind, owned_by, since, count, kept_by)
        for (kind, owned_by, since, kept_by), count in moved.items()
        if count
    )
    rows.add(connection, _added_up(Accruals(accrual, _steady_since(accrual)), spans))


def catch_up(database: Database, now: datetime, fence: Lease | None = None, at_once: int = AT_ONCE) -> int:
    """Work out all rates, then all totals, where prices changed, came into force, or a rate is missing.

    So many rates in each transaction; how many were written. Meanwhile, and until a later pass goes on should this one
    end, readers work them out themselves.
    """
    with database.read() as connection:
        accrual = accrual_at(connection, now)
        if burn_rates.are_current(connection, accrual):
            return 0
        ids = burn_rates.present_ids(connection)
    written = 0
    for at in range(0, len(ids), at_once):
        with database.write(fence) as connection:
            burn_rates.drop_basis(connection)
            written += burn_rates.keep(connection, now, ids[at : at + at_once])
    with database.write(fence) as connection:
        again = accrual_at(connection, now)
        if (
            again.book.digest == accrual.book.digest
        ):  # else they are of two states of the prices: the next pass sees to it
            accruals = Accruals(again, _steady_since(again))
            rows.replace(connection, _added_up(accruals, rows.open_spans(connection)))
            burn_rates.set_basis(connection, Basis(burn_rates.prices_of(again.book), *again.book.unchanged_around(now)))
    return written


def drifted(connection: Connection, accrual: Accrual) -> dict[tuple[Group, date], tuple[TotalFigures, TotalFigures]]:
    """Rows that differ from the ledger: what is stored, and what it should be. None while the basis does not hold."""
    if not burn_rates.are_current(connection, accrual):
        return {}
    right = _added_up(Accruals(accrual, _steady_since(accrual)), rows.open_spans(connection))
    stored, nothing = rows.read_all(connection), list(TotalFigures())
    return {
        key: (TotalFigures(*stored.get(key, nothing)), TotalFigures(*right.get(key, nothing)))
        for key in {**stored, **right}
        if stored.get(key, nothing) != right.get(key, nothing)
    }


def heal(database: Database, now: datetime, fence: Lease | None = None) -> int:
    """Make totals again that drifted from the ledger; how many rows had. Nothing should let them, so it is logged."""
    with database.read() as connection:
        wrong = drifted(connection, accrual_at(connection, now))
    if not wrong:
        return 0
    for (group, day), (stored, right) in list(wrong.items())[:5]:
        log.error("running_total_drifted", **group._asdict(), day=day, stored=tuple(stored), right=tuple(right))
    with database.write(fence) as connection:
        burn_rates.drop_basis(connection)
    catch_up(database, now, fence)
    return len(wrong)


def _added_up(accruals: Accruals, spans: Iterable[OpenSpans], times: int = 1) -> Totals:
    """Adds up these spans by group, without those that cannot be priced whole."""
    return _summed(accruals, ((_group(span), span) for span in spans), times)


def _group(span: OpenSpans) -> Group:
    return Group(*span.owned_by, model_of(span), *span.kept_by)


def model_of(span: OpenSpans) -> str:
    """Returns the provisioning model; that of storage counts as standard."""
    return str(span.kind[6]) if _is_lifetime(span.kind) else ProvisioningModel.STANDARD.value


def _summed(
    accruals: Accruals, spans: Iterable[tuple[_Part, OpenSpans]], times: int = 1
) -> dict[tuple[_Part, date], list[int]]:
    """Adds up spans by the group or label value that each is paired with."""
    totals: dict[tuple[_Part, date], list[int]] = {}
    for part, span in spans:
        for day, figures in accruals.of(span.kind, span.since) or ():
            _add_row(totals, (part, day), figures, span.count * times)
    return totals


def _add(totals: Totals, more: Totals) -> None:
    for key, figures in more.items():
        _add_row(totals, key, figures, 1)


def _add_row(
    totals: dict[tuple[_Part, date], list[int]], key: tuple[_Part, date], figures: Sequence[int], times: int
) -> None:
    before = totals.get(key)
    if before is None:
        totals[key] = [figure * times for figure in figures]
    else:
        totals[key] = [had + figure * times for had, figure in zip(before, figures, strict=True)]


def _is_lifetime(kind: Kind) -> bool:
    return len(kind) > 3


@lru_cache(maxsize=4096)  # a page bills the same few groups for several sums
def span_of(kind: Kind, since: datetime) -> Lifetime | StorageSpan:
    """Makes an open span of this kind, of no VM."""
    if _is_lifetime(kind):
        return Lifetime(_NO_KEY, since, Shape(*kind[:6]), ProvisioningModel(kind[6]), kind[7])
    resource, size_mib, zone = kind
    return StorageSpan(_NO_KEY, "", resource, size_mib, zone, since)


def _kind(span: Lifetime | StorageSpan) -> Kind:
    if isinstance(span, StorageSpan):
        return span.resource, span.size_mib, span.zone
    machine = span.shape
    shape = (
        machine.machine_type,
        machine.vcpus,
        machine.memory_mib,
        machine.gpu_type,
        machine.gpu_count,
        machine.local_ssd_gib,
    )
    return (*shape, span.provisioning_model.value, span.zone)


def _amounts(sums: list[int]) -> TotalFigures:
    machine, gpu, storage, seconds = sums
    return TotalFigures(machine_nanos=machine, gpu_nanos=gpu, storage_nanos=storage, seconds=seconds)


def _steady_since(accrual: Accrual) -> datetime | None:
    return accrual.book.unchanged_around(accrual.now)[0]


def _part(rate: int, seconds: int) -> int:
    return (rate * seconds + _HOUR_SECONDS // 2) // _HOUR_SECONDS
