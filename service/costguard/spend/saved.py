"""Savings: Spot against on-demand, stops, shadow stops; and what keeps cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from sqlalchemy import Connection, select

from costguard.db.bulk import chunks
from costguard.db.tables import instances, keeps, lifetimes, requests
from costguard.ledger import prices
from costguard.ledger.accrual import Accrual
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import billed_seconds
from costguard.ledger.rows import lifetime_of
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Lifetime
from costguard.model.moments import day_start
from costguard.model.money import Money, Priced
from costguard.model.price import SpotUse
from costguard.model.reminder import Subject, SubjectKind
from costguard.spend import spot_rows
from costguard.spend.enforcements import ShadowReport, StopReport, StopRow, enforcements
from costguard.spend.savings import Saving, of_keep
from costguard.spend.spot import SpotSaving, spot_saving
from costguard.spend.spot_rows import lost_to_preemptions


@dataclass(frozen=True, slots=True)
class KeepReport:
    keep: KeepRow
    spent: Saving

    @property
    def cost(self) -> Priced:
        return self.spent.amount


def kept(connection: Connection, book: PriceBook, now: datetime, since: datetime, until: datetime) -> list[KeepReport]:
    """Reports the keeps in [since, until), the latest first, with their cost by now."""
    return [KeepReport(row, _keep_cost(row, book, now)) for row in keeps_between(connection, since, until)]


def _keep_cost(keep: KeepRow, book: PriceBook, now: datetime) -> Saving:
    # A second keep costs from where the first ran out: no second is counted twice.
    since = keep.at if keep.due_at is None else max(keep.at, keep.due_at)
    return of_keep(keep.run, since, keep.until, book, now)


@dataclass(frozen=True, slots=True)
class KeepRow:
    """A run that someone kept. `due_at` is when it was due as they saw it, or as an earlier keep had moved it."""

    key: InstanceKey
    name: str
    preset: str
    owner: str
    by: str
    at: datetime
    until: datetime
    reason: str
    due_at: datetime | None
    run: Lifetime


def keeps_between(connection: Connection, since: datetime, until: datetime) -> list[KeepRow]:
    """All keeps of running VMs that were given in [since, until), the latest first."""
    columns, vm = keeps.c, instances.c
    query = (
        select(keeps, vm.project, vm.gce_id, vm.name, vm.preset, vm.owner, requests.c.due_at)
        .join_from(keeps, instances, vm.id == columns.instance_id)
        .join(requests, requests.c.id == columns.request_id)
        .where(columns.at < until, columns.subject.startswith(f"{SubjectKind.RUN.value}:"))
        .order_by(columns.at, columns.id)
    )
    rows = list(connection.execute(query))
    ids = {row.id: Subject.parse(row.subject).lifetime_id for row in rows}
    runs = {
        run.id: run
        for chunk in chunks({ids[row.id] for row in rows if row.at >= since})
        for run in connection.execute(select(lifetimes).where(lifetimes.c.id.in_(chunk)))
    }
    kept_to: dict[str, datetime] = {}
    reported = []
    for row in rows:
        before = kept_to.get(row.subject)
        kept_to[row.subject] = row.until if before is None else max(before, row.until)
        if row.at >= since and ids[row.id] in runs:
            key = InstanceKey(row.project, row.gce_id)
            reported.append(
                KeepRow(
                    key=key,
                    name=row.name,
                    preset=row.preset,
                    owner=row.owner,
                    by=row.by,
                    at=row.at,
                    until=row.until,
                    reason=row.reason,
                    due_at=max(filter(None, (before, row.due_at)), default=None),
                    run=lifetime_of(key, runs[ids[row.id]]),
                )
            )
    return reported[::-1]


_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Saved:
    spot: SpotSaving
    lost: Money  # what was paid for work that had to be done again
    stops: Sequence[StopReport]
    shadows: Sequence[ShadowReport]
    keeps: Sequence[KeepReport]

    @property
    def by_stops(self) -> Priced:
        return _sum(stop.saving.amount for stop in self.stops if stop.saving is not None)

    @property
    def carried_out(self) -> int:
        return sum(stop.saving is not None for stop in self.stops)

    @property
    def by_shadows(self) -> Priced:
        return _sum(shadow.saving.amount for shadow in self.shadows if shadow.saving is not None)

    @property
    def by_keeps(self) -> Priced:
        return _sum(keep.cost for keep in self.keeps)

    @property
    def spot_share(self) -> int:
        """Returns the cost of Spot, in thousandths of the on-demand cost."""
        return min(1000, 1000 * self.spot.cost.nanos // max(1, self.spot.on_demand.nanos))


def saved_between(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Saved:
    """Reports the savings on the UTC days [first, last], within the scope."""
    since, until = day_start(first), day_start(last) + _DAY
    enforced = enforcements(connection, accrual.book, accrual.now, since, until)
    return Saved(
        spot=saved_by_spot(connection, accrual, first, last, scope),
        lost=lost_to_preemptions(connection, first, last, scope),
        stops=[stop for stop in enforced.stops if _is_in(scope, stop.stop)],
        shadows=[shadow for shadow in enforced.shadows if _is_in(scope, shadow.stop)],
        keeps=[
            report for report in kept(connection, accrual.book, accrual.now, since, until) if _is_in(scope, report.keep)
        ],
    )


def _is_in(scope: Scope, row: StopRow | KeepRow) -> bool:
    return scope.holds(row.key.project, row.preset, row.owner, "")


def _sum(amounts: Iterable[Priced]) -> Priced:
    return sum(amounts, Priced())


_INSTANT = timedelta(microseconds=1)


def saved_by_spot(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> SpotSaving:
    """Returns the saving on the UTC days [first, last], today's share up to now included."""
    periods = accrual.book.steady(ProvisioningModel.STANDARD, first, last)
    stored = spot_rows.charged(connection, periods, scope)
    live = _live(connection, accrual, first, last, scope)
    return spot_saving([*stored, *live], prices.by_id(connection), accrual.book)


def _live(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[SpotUse]:
    start, end = day_start(first), day_start(last) + _DAY
    until = min(end, accrual.now)
    if until <= start:
        return
    # From then on nothing changes price, and alike VMs cost what one costs, times their seconds together.
    steady = max(day_start((until - _INSTANT).date()), accrual.book.unchanged_around(until)[0] or start)
    alike: Counter[Lifetime] = Counter()
    for run, uncharged_from, count in spot_rows.uncharged(connection, scope):
        since = max(uncharged_from, start)
        if since >= min(end, run.ended_at or accrual.now):
            continue
        if run.ended_at is None and since >= steady:
            alike[replace(run, started_at=steady)] += count * billed_seconds(since, until)
            continue
        for charge in accrual.bill(run, since, end).charges:
            amount = charge.quantity * charge.seconds * count
            yield SpotUse(charge.day, charge.price_id, amount, Money(charge.amount.nanos * count))
    for run, seconds in alike.items():
        for charge in accrual.bill(run, None, until).charges:
            if charge.seconds:
                cost = Money(charge.amount.nanos * seconds // charge.seconds)
                yield SpotUse(charge.day, charge.price_id, charge.quantity * seconds, cost)
