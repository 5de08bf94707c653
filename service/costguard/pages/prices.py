"""The page Prices: what a unit costs where, by which source, what was refused, and what has no price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.db import health_rows
from costguard.ledger import prices
from costguard.ledger.accrual import book_of
from costguard.ledger.billed.machine_parts import accelerator_kind, resource_words
from costguard.ledger.gaps import UnpricedSpan, recorded_gaps
from costguard.ledger.price_book import PriceBook
from costguard.ledger.prices import ListedRefusal
from costguard.model.instance import ProvisioningModel
from costguard.model.price import Price, PriceKey, Unit
from costguard.pages import query
from costguard.pages.page import Given, Source, page_router
from costguard.pages.query import BadAddress
from costguard.pages.show import link, unit_price

_PAGE_SIZE = 100
OLD = timedelta(days=31)  # Google moves Spot prices up to once a month
_MOST_REFUSALS = 50
_MOST_UNPRICED = 20
_INSTANT = timedelta(microseconds=1)
_UNITS = {
    Unit.HOUR: "hour",
    Unit.GIB_HOUR: "GiB-hour",
    Unit.GB_HOUR: "GB-hour",
    Unit.GIB_MONTH: "GiB-month",
}
_FIRST = {"GPU": 0, "TPU": 1, "machine": 2, "disk": 3}  # what people look for

router = page_router()


@dataclass(frozen=True, slots=True)
class PricesQuery:
    """The page's address."""

    words: str = ""
    region: str = ""
    kind: str = ""
    page: int = 1

    @property
    def is_filtered(self) -> bool:
        return bool(self.words or self.region or self.kind)

    def address(self, **changed: str | int | None) -> str:
        """This page with other filters, from its first row on."""
        given = {"words": self.words or None, "region": self.region or None, "kind": self.kind or None}
        return link("/prices", **{**given, **changed})


@dataclass(frozen=True, slots=True)
class PriceInForce:
    """A price in force, the one before it and the one that follows; None where there is none."""

    price: Price
    before: Price | None
    after: Price | None


@dataclass(frozen=True, slots=True)
class PriceLine:
    """`saving` is how much less Spot costs, in whole percents, cut off. `reserved` is in calendar mode."""

    resource: str
    name: str
    region: str
    unit: str
    on_demand: PriceInForce | None
    spot: PriceInForce | None
    flex_start: PriceInForce | None
    reserved: PriceInForce | None
    saving: int | None

    @property
    def rates(self) -> tuple[PriceInForce, ...]:
        """Returns those that are known, the usual one first."""
        return tuple(rate for rate in (self.on_demand, self.spot, self.flex_start, self.reserved) if rate is not None)


@dataclass(frozen=True, slots=True)
class RefusedRow:
    listed: ListedRefusal
    name: str
    unit: str
    stays: Price | None  # the last good one, which stays in force


@dataclass(frozen=True, slots=True)
class PricesPage:
    lines: Sequence[PriceLine]
    total: int  # lines that match
    first: int  # the number of the first that is shown
    has_flex_start: bool  # on this page of them
    has_reserved: bool
    digits: int  # after the point, of the price that has the most
    before_address: str
    next_address: str
    in_force: int  # prices in force, in all
    regions: Sequence[str]
    kinds: Sequence[str]
    sources: Sequence[str]
    recorded_at: datetime | None
    age: timedelta | None
    is_old: bool
    refused: Sequence[RefusedRow]
    refusals: int
    unpriced: Sequence[UnpricedSpan]
    gaps: int


def prices_query(address: Mapping[str, str]) -> PricesQuery:
    """Raises BadAddress. Parameters that are not known are left alone."""
    text = query.texts(address, "/prices")
    page = text.get("page", "1")
    if not (page.isascii() and page.isdigit() and 0 < int(page) < 10_000):
        raise BadAddress("The address does not point to a page of the prices.", "Start again from /prices.")
    return PricesQuery(text.get("words", ""), text.get("region", ""), text.get("kind", ""), int(page))


@router.get("/prices")
def show_prices(request: Request, pages: Given) -> HTMLResponse:
    now = pages.source.clock.now()
    wanted = prices_query(request.query_params)
    page = _gathered(pages.source, wanted, now)
    return pages.renderer.page(request, "prices.html", now, query=wanted, prices=page)


def _gathered(source: Source, wanted: PricesQuery, now: datetime) -> PricesPage:
    with source.database.read() as connection:
        book = book_of(connection)
        refused = prices.refusals(connection)
        recorded_at = health_rows.prices_recorded_at(connection)
        gaps = [gap for gap in recorded_gaps(connection, now.date(), now.date()) if gap.ended_at is None]
    keys = book.keys()
    pairs = {(key.resource, key.region) for key in keys}
    matching = sorted((pair for pair in pairs if _matches(*pair, wanted)), key=_order)
    start = (wanted.page - 1) * _PAGE_SIZE
    shown = [_line(book, resource, region, now) for resource, region in matching[start : start + _PAGE_SIZE]]
    in_force = [price for key in keys if (price := book.at(key, now)) is not None]
    age = None if recorded_at is None else max(timedelta(), now - recorded_at)
    return PricesPage(
        lines=shown,
        total=len(matching),
        first=start + 1,
        has_flex_start=any(line.flex_start for line in shown),
        has_reserved=any(line.reserved for line in shown),
        digits=max((_digits(rate) for line in shown for rate in line.rates), default=0),
        before_address=wanted.address(page=wanted.page - 1 if wanted.page > 2 else None) if wanted.page > 1 else "",
        next_address=wanted.address(page=wanted.page + 1) if start + _PAGE_SIZE < len(matching) else "",
        in_force=len(in_force),
        regions=sorted({region for _, region in pairs}),
        kinds=sorted({_kind_of(resource) for resource, _ in pairs}, key=_FIRST.__getitem__),
        sources=sorted({price.source for price in in_force}),
        recorded_at=recorded_at,
        age=age,
        is_old=age is not None and age > OLD,
        refused=[_refused(listed, book, now) for listed in refused[:_MOST_REFUSALS]],
        refusals=len(refused),
        unpriced=gaps[:_MOST_UNPRICED],
        gaps=len(gaps),
    )


def _kind_of(resource: str) -> str:
    if (kind := accelerator_kind(resource)) is not None:
        return kind
    return "disk" if resource.startswith("disk:") else "machine"


def _matches(resource: str, region: str, wanted: PricesQuery) -> bool:
    if (wanted.region and region != wanted.region) or (wanted.kind and _kind_of(resource) != wanted.kind):
        return False
    words = f"{resource} {resource_words(resource)} {region}".lower()
    return all(word in words for word in wanted.words.lower().split())


def _order(pair: tuple[str, str]) -> tuple[int, str, str]:
    resource, region = pair
    return _FIRST[_kind_of(resource)], resource, region


def _line(book: PriceBook, resource: str, region: str, now: datetime) -> PriceLine:
    usual, spot, flex, reserved = (_rate(book, PriceKey(resource, region, model), now) for model in ProvisioningModel)
    one = usual or spot or flex or reserved
    return PriceLine(
        resource=resource,
        name=resource_words(resource),
        region=region,
        unit=_UNITS[one.price.unit] if one is not None else "",
        on_demand=usual,
        spot=spot,
        flex_start=flex,
        reserved=reserved,
        saving=_saving(usual, spot),
    )


def _rate(book: PriceBook, key: PriceKey, now: datetime) -> PriceInForce | None:
    price = book.at(key, now)
    if price is None:
        return None
    before = book.at(key, price.in_force_from - _INSTANT)
    # The price of a month is cut where the month ends, and stays the same.
    following = [later for later, _, _ in book.pieces(key, now, now + OLD) if later is not None and later is not price]
    return PriceInForce(price, None if before is price else before, following[0] if following else None)


def _digits(rate: PriceInForce) -> int:
    shown = (price for price in (rate.price, rate.before, rate.after) if price is not None)
    return max(len(unit_price(price.rate_nanos).partition(".")[2]) for price in shown)


def _saving(usual: PriceInForce | None, spot: PriceInForce | None) -> int | None:
    if usual is None or spot is None or usual.price.unit is not spot.price.unit or usual.price.rate_nanos <= 0:
        return None
    return 100 * (usual.price.rate_nanos - spot.price.rate_nanos) // usual.price.rate_nanos


def _refused(listed: ListedRefusal, book: PriceBook, now: datetime) -> RefusedRow:
    price = listed.refused.price
    return RefusedRow(listed, resource_words(price.key.resource), _UNITS[price.unit], book.at(price.key, now))
