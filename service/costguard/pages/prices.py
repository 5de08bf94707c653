"""What the page of prices shows: what a unit costs where, who says so, what was refused, and what has no price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.db import health_rows
from costguard.ledger import price_list
from costguard.ledger.accrual import book_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_list import ListedRefusal
from costguard.model.budget import Scope
from costguard.model.instance import ProvisioningModel
from costguard.model.price import Price, PriceKey, Unit
from costguard.pages.asked import LONGEST, BadAddress
from costguard.pages.show import gpu_words, link, unit_price
from costguard.pages.source import Source
from costguard.spend import spend_rows
from costguard.spend.spend_rows import UnpricedSpan

PAGE = 100
OLD = timedelta(days=31)  # Google moves Spot prices up to once a month
_MOST_REFUSALS = 50
_MOST_UNPRICED = 20
_INSTANT = timedelta(microseconds=1)
_UNITS = {
    Unit.HOUR: "an hour",
    Unit.GIB_HOUR: "a GiB, an hour",
    Unit.GB_HOUR: "a GB, an hour",
    Unit.GIB_MONTH: "a GiB, a month",
}
_PARTS = {"core": "vCPU", "ram": "memory"}
_ALONE = {"local-ssd": "Local SSD", "suspended-memory": "Memory of suspended VMs"}
_FIRST = {"GPU": 0, "machine": 1, "disk": 2}  # what people look for


@dataclass(frozen=True, slots=True)
class PricesAsked:
    words: str = ""
    region: str = ""
    kind: str = ""
    page: int = 1

    @property
    def is_filtered(self) -> bool:
        return bool(self.words or self.region or self.kind)

    def address(self, **changed: str | int | None) -> str:
        """This page's address with other filters, from its first row on."""
        given = {"words": self.words or None, "region": self.region or None, "kind": self.kind or None}
        return link("/prices", **{**given, **changed})


@dataclass(frozen=True, slots=True)
class Rate:
    """A price in force, what it was before, and what comes next; None where there was, or is, no other."""

    price: Price
    before: Price | None
    after: Price | None


@dataclass(frozen=True, slots=True)
class Line:
    """`saving` is how much less Spot costs, in whole percents, cut off."""

    resource: str
    name: str
    region: str
    unit: str
    on_demand: Rate | None
    spot: Rate | None
    saving: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    listed: ListedRefusal
    name: str
    unit: str
    stays: Price | None  # the last good one, in force meanwhile


@dataclass(frozen=True, slots=True)
class Prices:
    lines: Sequence[Line]
    total: int  # of lines that fit
    first: int  # the number of the first that is shown
    digits: int  # after the point, of the price that has the most
    before_address: str
    next_address: str
    known: int  # prices in force, in all
    regions: Sequence[str]
    kinds: Sequence[str]
    sources: Sequence[str]
    recorded_at: datetime | None
    age: timedelta | None
    is_old: bool
    refused: Sequence[Refused]
    refusals: int
    unpriced: Sequence[UnpricedSpan]
    gaps: int


def prices_asked(query: Mapping[str, str]) -> PricesAsked:
    """Raises BadAddress. Parameters that are not known are left alone."""
    text = {name: value.strip() for name, value in query.items() if value.strip()}
    for name, value in text.items():
        if len(value) > LONGEST or "\x00" in value:
            raise BadAddress(f"The address's {name} is nothing that a price can have.", "Start again from /prices.")
    page = text.get("page", "1")
    if not (page.isascii() and page.isdigit() and 0 < int(page) < 10_000):
        raise BadAddress("The address names no page of the prices.", "Start again from /prices.")
    return PricesAsked(text.get("words", ""), text.get("region", ""), text.get("kind", ""), int(page))


def prices_page(source: Source, asked: PricesAsked, now: datetime) -> Prices:
    with source.database.read() as connection:
        book = book_of(connection)
        refused = price_list.refusals(connection)
        recorded_at = health_rows.prices_recorded_at(connection)
        gaps = [
            each for each in spend_rows.unpriced(connection, now.date(), now.date(), Scope()) if each.ended_at is None
        ]
    keys = book.keys()
    pairs = {(key.resource, key.region) for key in keys}
    fitting = sorted((pair for pair in pairs if _fits(*pair, asked)), key=_order)
    start = (asked.page - 1) * PAGE
    shown = [_line(book, resource, region, now) for resource, region in fitting[start : start + PAGE]]
    in_force = [price for key in keys if (price := book.at(key, now)) is not None]
    age = None if recorded_at is None else max(timedelta(), now - recorded_at)
    return Prices(
        lines=shown,
        total=len(fitting),
        first=start + 1,
        digits=max((_digits(rate) for line in shown for rate in (line.on_demand, line.spot) if rate), default=0),
        before_address=asked.address(page=asked.page - 1 if asked.page > 2 else None) if asked.page > 1 else "",
        next_address=asked.address(page=asked.page + 1) if start + PAGE < len(fitting) else "",
        known=len(in_force),
        regions=sorted({region for _, region in pairs}),
        kinds=sorted({kind_of(resource) for resource, _ in pairs}, key=_FIRST.__getitem__),
        sources=sorted({price.source for price in in_force}),
        recorded_at=recorded_at,
        age=age,
        is_old=age is not None and age > OLD,
        refused=[_refused(each, book, now) for each in refused[:_MOST_REFUSALS]],
        refusals=len(refused),
        unpriced=gaps[:_MOST_UNPRICED],
        gaps=len(gaps),
    )


def kind_of(resource: str) -> str:
    if resource.startswith("gpu:"):
        return "GPU"
    return "disk" if resource.startswith("disk:") else "machine"


def name_of(resource: str) -> str:
    """`T4 GPU`, `N1 vCPU`, `N1 memory`, `f1-micro VM`, `pd-ssd disk`"""
    family, _, part = resource.partition(":")
    part, _, whole = part.partition(":")
    if family == "gpu":
        return f"{gpu_words(part)} GPU{' with its share of the VM' if whole else ''}"
    if part == "whole":
        return f"{family} VM"
    if family == "disk":
        return f"{part} disk"
    return f"{family.upper()} {_PARTS[part]}" if part in _PARTS else _ALONE.get(resource, resource)


def _fits(resource: str, region: str, asked: PricesAsked) -> bool:
    if (asked.region and region != asked.region) or (asked.kind and kind_of(resource) != asked.kind):
        return False
    words = f"{resource} {name_of(resource)} {region}".lower()
    return all(word in words for word in asked.words.lower().split())


def _order(pair: tuple[str, str]) -> tuple[int, str, str]:
    resource, region = pair
    return _FIRST[kind_of(resource)], resource, region


def _line(book: PriceBook, resource: str, region: str, now: datetime) -> Line:
    usual, spot = (
        _rate(book, PriceKey(resource, region, model), now)
        for model in (ProvisioningModel.STANDARD, ProvisioningModel.SPOT)
    )
    one = usual or spot
    return Line(
        resource=resource,
        name=name_of(resource),
        region=region,
        unit=_UNITS[one.price.unit] if one is not None else "",
        on_demand=usual,
        spot=spot,
        saving=_saving(usual, spot),
    )


def _rate(book: PriceBook, key: PriceKey, now: datetime) -> Rate | None:
    price = book.at(key, now)
    if price is None:
        return None
    before = book.at(key, price.in_force_from - _INSTANT)
    changes = (start for _, start, _ in book.pieces(key, now, now + OLD))
    following = [found for start in changes if start > now and (found := book.at(key, start)) is not None]
    return Rate(price, None if before is price else before, following[0] if following else None)


def _digits(rate: Rate) -> int:
    return len(unit_price(rate.price.rate_nanos).partition(".")[2])


def _saving(usual: Rate | None, spot: Rate | None) -> int | None:
    if usual is None or spot is None or usual.price.unit is not spot.price.unit or usual.price.rate_nanos <= 0:
        return None
    return 100 * (usual.price.rate_nanos - spot.price.rate_nanos) // usual.price.rate_nanos


def _refused(listed: ListedRefusal, book: PriceBook, now: datetime) -> Refused:
    price = listed.refused.price
    return Refused(listed, name_of(price.key.resource), _UNITS[price.unit], book.at(price.key, now))
