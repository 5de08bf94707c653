"""Reports by the hour what commitments covered and what of their fees was lost, from the bill's stored hours.

Coverage is covered over eligible use, both at the account's price without a commitment: on-demand use of vCPUs, memory,
GPUs, TPU chips and local SSD, for all of which Google sells commitments of one kind or the other. Waste is the part of
an hour's fee that no use took off: no other hour can take it up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, cast, func, select

from costguard.bill.commit_words import PartKind
from costguard.bill.commitments import FLEXIBLE_FEES
from costguard.bill.export_fields import is_rate
from costguard.bill.lines import BillStanding
from costguard.bill.stored import counted_sources
from costguard.db.tables import bill_commitment_hours, bill_days, bill_partitions, bill_usage
from costguard.model.moments import day_start
from costguard.model.money import Money

METHOD = (
    "Hours are UTC, those in which the usage of the bill's rows begins. Covered: the part of on-demand use that "
    "commitments cover, over all on-demand use of vCPUs, memory, GPUs, TPU chips and local SSD, at the account's price "
    "without a commitment. Wasted: the part of an hour's fee that no use took off; fees of resource-based commitments, "
    "and of spend-based ones before 2025, do not say it."
)
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Covered:
    """Dollars of an hour, of many, or of a family and region. `wasted` is None where no fee says how much was used."""

    eligible: Money
    covered: Money
    saved: Money  # by discounted prices and by credits
    fee: Money  # before what use took off it
    offset: Money  # what use took off the fee, zero or more
    wasted: Money | None

    @property
    def share(self) -> Fraction | None:
        """Returns the covered part of the eligible use; None where nothing was used."""
        return Fraction(self.covered.nanos, self.eligible.nanos) if self.eligible.nanos > 0 else None

    @property
    def paid(self) -> Money:
        """Returns the cost of commitments besides the use that they cover."""
        return self.fee - self.offset

    @property
    def net(self) -> Money:
        return self.saved - self.paid


@dataclass(frozen=True, slots=True)
class CoveredPlace:
    """On-demand use of one machine family's parts of a kind, in one region."""

    kind: PartKind
    family: str  # "" of local SSD, whose SKU names none
    region: str
    use: Covered


@dataclass(frozen=True, slots=True)
class FeeByHour:
    """A commitment's fee: all of its hours added up."""

    sku_id: str
    name: str
    family: str
    region: str
    use: Covered


@dataclass(frozen=True, slots=True)
class CommitmentHours:
    """`days_without`: UTC days in the range whose bill was read, in part at least, before its hours were kept."""

    since: datetime | None  # None: no day of a bill is closed
    hours: Sequence[tuple[datetime, Covered]] = ()
    by_hour_of_day: Sequence[tuple[int, Covered]] = ()
    places: Sequence[CoveredPlace] = ()
    fees: Sequence[FeeByHour] = ()
    total: Covered | None = None
    days_without: Sequence[date] = ()

    def share_of(self, places: Collection[tuple[PartKind, str, str]]) -> Fraction | None:
        """Returns the covered share of several (kind, family, region) together; None where none has use on the bill."""
        uses = [one.use for one in self.places if (one.kind, one.family, one.region) in places]
        eligible = sum(one.eligible.nanos for one in uses)
        return Fraction(sum(one.covered.nanos for one in uses), eligible) if eligible > 0 else None


@dataclass(slots=True)
class _Sum:
    """Whole nanos by the rate of their currency: they are made dollars once, at the end."""

    by_rate: dict[str, list[int]] = field(default_factory=dict)
    says: bool = False

    def add(self, row: Row[Any], *, says: bool) -> None:
        sums = self.by_rate.setdefault(row.rate, [0] * 6)
        for place, nanos in enumerate((row.use, row.covered, row.saved, row.fee, -row.offset)):
            sums[place] += nanos
        if says:
            sums[5] += row.fee + row.offset
            self.says = True

    def covered_use(self) -> Covered:
        dollars = [Fraction(0)] * 6
        for rate, sums in self.by_rate.items():
            dollars = [before + nanos / Fraction(Decimal(rate)) for before, nanos in zip(dollars, sums, strict=True)]
        use, covered, saved, fee, offset, wasted = (Money(round(one)) for one in dollars)
        return Covered(use, covered, saved, fee, offset, wasted if self.says else None)


def commitment_hours(connection: Connection, days: int) -> CommitmentHours:
    """The last so many closed days of the bill, or as many as have hours. Open days' rows are still to come."""
    last: date | None = connection.scalar(
        select(func.max(bill_days.c.day)).where(bill_days.c.standing == BillStanding.CLOSED.value)
    )
    if last is None:
        return CommitmentHours(None)
    first = last - timedelta(days=days - 1)
    since, until = (day_start(day) for day in (first, last + _DAY))
    groups = _added_up(connection, since, until, "kind", "family", "region", "sku_id", "name")
    says = FLEXIBLE_FEES | {row.sku_id for row in groups if row.offset}
    without = _days_without(connection, first, last)
    if not groups:
        return CommitmentHours(since, days_without=without)
    by_hour: defaultdict[datetime, _Sum] = defaultdict(_Sum)
    by_hour_of_day: defaultdict[int, _Sum] = defaultdict(_Sum)
    total = _Sum()
    for row in _added_up(connection, since, until, "hour", "kind", "sku_id"):
        for one in (total, by_hour[row.hour], by_hour_of_day[row.hour.hour]):
            one.add(row, says=_says_use(row, says))
    begin = min(by_hour)
    count = (until - begin) // _HOUR
    return CommitmentHours(
        since=begin,
        hours=[(hour, by_hour[hour].covered_use()) for hour in (begin + n * _HOUR for n in range(count))],
        by_hour_of_day=[(hour, by_hour_of_day[hour].covered_use()) for hour in range(24)],
        places=_places(groups),
        fees=_fees(groups, says),
        total=total.covered_use(),
        days_without=without,
    )


def _added_up(connection: Connection, since: datetime, until: datetime, *names: str) -> list[Row[Any]]:
    """Returns sums by these columns and the rate, of currencies whose rate is known."""
    table = bill_commitment_hours
    columns = [table.c[name] for name in (*names, "rate")]
    amounts = [
        cast(func.sum(table.c[f"{name}_nanos"]), BigInteger).label(name)
        for name in ("use", "covered", "saved", "fee", "offset")
    ]
    statement = (
        select(*columns, *amounts)
        .join(bill_partitions, bill_partitions.c.id == table.c.partition_id)
        .where(table.c.hour >= since, table.c.hour < until)
        .where(bill_partitions.c.source.in_(counted_sources(connection)))
        .group_by(*columns)
    )
    return [row for row in connection.execute(statement) if is_rate(Decimal(row.rate))]


def _says_use(row: Row[Any], says: Collection[str]) -> bool:
    return row.kind == PartKind.FEE and row.sku_id in says


def _places(groups: Iterable[Row[Any]]) -> list[CoveredPlace]:
    """The most use first."""
    sums: defaultdict[tuple[str, str, str], _Sum] = defaultdict(_Sum)
    for row in groups:
        if row.kind != PartKind.FEE:
            sums[row.kind, row.family, row.region].add(row, says=False)
    places = [
        CoveredPlace(PartKind(kind), family, region, one.covered_use()) for (kind, family, region), one in sums.items()
    ]
    return sorted(places, key=lambda one: (-one.use.eligible.nanos, one.family, one.region, one.kind))


def _fees(groups: Iterable[Row[Any]], says: Collection[str]) -> list[FeeByHour]:
    """The dearest first."""
    sums: defaultdict[tuple[str, str, str, str], _Sum] = defaultdict(_Sum)
    for row in groups:
        if row.kind == PartKind.FEE:
            sums[row.sku_id, row.name, row.family, row.region].add(row, says=_says_use(row, says))
    fees = [FeeByHour(*key, one.covered_use()) for key, one in sums.items()]
    return sorted(fees, key=lambda one: (-one.use.fee.nanos, one.name, one.region))


def _days_without(connection: Connection, first: date, last: date) -> list[date]:
    statement = (
        select(bill_usage.c.utc_day)
        .join(bill_partitions, bill_partitions.c.id == bill_usage.c.partition_id)
        .where(~bill_partitions.c.has_hours, bill_usage.c.utc_day.between(first, last))
        .where(bill_partitions.c.source.in_(counted_sources(connection)))
        .where(bill_usage.c.pacific_day.between(first - _DAY, last))
        .distinct()
        .order_by(bill_usage.c.utc_day)
    )
    return list(connection.scalars(statement))
