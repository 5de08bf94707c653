"""Reports what to commit to: the ledger's hours of use, at its prices, less what the bill shows to be bought."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction

from sqlalchemy import Connection, func, select

from costguard.bill import stored
from costguard.bill.commit_cover import CommitmentHours, commitment_hours
from costguard.bill.commit_words import PartKind
from costguard.bill.commitments import YEARS_OF_FEE, is_fee
from costguard.bill.lines import BillStanding
from costguard.bill.sums import used_of
from costguard.db.tables import bill_days
from costguard.ledger import prices as ledger_prices
from costguard.ledger.accrual import book_of
from costguard.ledger.price_book import PriceBook
from costguard.model.billing.bill import BillRow
from costguard.model.instance import TPUS, ProvisioningModel
from costguard.model.price import TERMS, PriceKey, committed, without_commitment
from costguard.spend.commit_advice import (
    ALL,
    FLEXIBLE,
    LEAST_DAYS,
    UNSURE,
    CommitmentAdvice,
    CommitmentKind,
    Use,
    UseKey,
    advise,
    covers_gpus,
    flexible_families,
    is_covered,
    unknown_prices,
)
from costguard.spend.commit_hours import HoursOfUse, hours_of_use

MOST_DAYS = 400
METHOD = (
    "On-demand use by the hour, at list prices in force now. A commitment is paid whether it is used or not: the level "
    "is what use exceeds in so many of the hours that one more would cost more than it saves. Spot, flex-start and VMs "
    "of reservations with prices of their own are not in it, and neither is sustained use. A flexible commitment and "
    "one to resources are alternatives. Amounts are of 730 hours; what falls is the use of every hour."
)
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Bought:
    """Commitments on the latest closed day of the bill: list price an hour that flexible ones cover, and resources.

    `unnamed` are fees whose family and region are not known: they are not subtracted.
    """

    day: date | None = None
    flexible_nanos: int = 0
    resources: Mapping[tuple[str, str], Fraction] | None = None
    unnamed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CommitmentReport:
    """`too_short` is a sentence where fewer days than needed are known, and nothing is advised.

    `unsure` has families in use of which public texts disagree whether flexible commitments cover them.
    `uncovered` is in use, and neither a flexible commitment covers it nor is the price of any other known.
    """

    since: datetime
    hours: int
    advice: Sequence[CommitmentAdvice]
    too_short: str
    bought: Bought
    uncovered: Sequence[UseKey]
    unpriced: Sequence[UseKey]
    unknown_runs: int
    unsure: Sequence[str]
    cover: CommitmentHours


def commitment_report(connection: Connection, now: datetime, days: int) -> CommitmentReport:
    used, book, bought = hours_of_use(connection, now, days), book_of(connection), _bought(connection)
    prices = _prices(book, used, now)
    cover = commitment_hours(connection, days)
    use = Use(used.hours, used.series, prices, bought.flexible_nanos, bought.resources)
    too_short = ""
    if used.hours < LEAST_DAYS * 24:
        too_short = (
            f"The ledger has {used.hours // 24} full days of use: nothing is advised before {LEAST_DAYS}, as a "
            "commitment binds for a year."
        )
    return CommitmentReport(
        since=used.since,
        hours=used.hours,
        advice=[] if too_short else [replace(one, covered=_covered_share(cover, one)) for one in advise(use)],
        too_short=too_short,
        bought=bought,
        uncovered=[key for key in unknown_prices(use) if not is_covered(key)],
        unpriced=sorted(key for key in used.series if (key.resource, key.region) not in prices),
        unknown_runs=used.unknown_runs,
        unsure=sorted({key.family.upper() for key in used.series if key.family in UNSURE and is_covered(key)}),
        cover=cover,
    )


def _covered_share(cover: CommitmentHours, advice: CommitmentAdvice) -> Fraction | None:
    """Returns the covered share of such use. The bill names no family of local SSD, so that it is in no family's."""
    if advice.kind is CommitmentKind.FLEXIBLE:
        families = flexible_families(advice.family)
        return cover.share_of(
            {
                (one.kind, one.family, one.region)
                for one in cover.places
                if one.family in families and (one.kind is PartKind.HOST or covers_gpus(one.family))
                if advice.region in (ALL, one.region)
            }
        )
    if advice.resource == "local-ssd":
        return cover.share_of({(PartKind.SSD, "", advice.region)})
    _, _, gpu = advice.resource.partition("gpu:")
    family = tpu if (tpu := gpu.partition(":")[0]) in TPUS else advice.family
    return cover.share_of({(PartKind.GPU if gpu else PartKind.HOST, family, advice.region)})


def _prices(book: PriceBook, used: HoursOfUse, now: datetime) -> dict[tuple[str, str], Fraction]:
    """Nano-dollars an hour of what is in use, and of commitments to it."""
    prices: dict[tuple[str, str], Fraction] = {}
    for key in used.series:
        for resource in (key.resource, *(committed(key.resource, years) for years in TERMS)):
            price = book.at(PriceKey(resource, key.region, ProvisioningModel.STANDARD), now)
            if price is not None:
                prices[resource, key.region] = price.nanos_per_second(now) * 3600
    return prices


def _bought(connection: Connection) -> Bought:
    day = connection.scalar(select(func.max(bill_days.c.day)).where(bill_days.c.standing == BillStanding.CLOSED.value))
    if day is None:
        return Bought()
    resources: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    by_id = {price.sku_id: price.key.resource for price in ledger_prices.load(connection) if price.sku_id}
    flexible, unnamed = Fraction(0), set[str]()
    for row in stored.fees_of(connection, day):
        if not is_fee(row):
            continue
        resource, years = without_commitment(by_id.get(row.sku_id, ""))
        used = used_of(row)
        if (term := YEARS_OF_FEE.get(row.sku_id)) is not None:
            flexible += _covered(row, term)
        elif years and used is not None and row.zone.count("-") == 1:
            resources[resource, row.zone] += used / _DAY_S
        else:
            unnamed.add(row.sku_text)
    return Bought(day, round(flexible), dict(resources), sorted(unnamed))


def _covered(row: BillRow, years: int) -> Fraction:
    """Returns the use at list price that a day's fee of a flexible commitment covers, in nano-dollars an hour."""
    return Fraction(row.cost_nanos) / Fraction(row.rate) / 24 / (1 - FLEXIBLE["n2"][years])
