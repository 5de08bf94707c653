"""Prices in force, refused prices, and what in use has none."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import BeforeValidator, Field

from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Provisioning, Query, Seconds, Text, Usd, one_of, read_from, usd
from costguard.api.route import routes
from costguard.ledger import prices as price_list
from costguard.ledger.accrual import Accrual
from costguard.ledger.gaps import gaps
from costguard.ledger.price_book import PriceBook
from costguard.ledger.prices import ListedPrice
from costguard.model.budget import Scope
from costguard.model.money import Money
from costguard.model.price import PriceKey, Unit

router = routes("prices")

_LISTED_UNPRICED = 100
# From whole nano-dollars.
_UnitPrice = Annotated[Usd, BeforeValidator(lambda nanos: usd(Money(nanos)))]


class PriceOut(Out):
    resource: str = read_from("price.key.resource", examples=["a2:core"])
    region: str = read_from("price.key.region")
    provisioning_model: Provisioning = read_from("price.key.provisioning_model")
    rate: _UnitPrice = read_from("price.rate_nanos", description="The price in dollars per unit.")
    unit: str = read_from(
        "price.unit", description="`h`, `GiBy.h` or `GiBy.mo` (the calendar month in US Pacific time)."
    )
    in_force_from: Moment = read_from("price.in_force_from")
    is_in_force: bool = Field(description="False: a later price replaced it, or it is not in force yet.")
    source: str = read_from("price.source")
    sku_id: str = read_from("price.sku_id")
    recorded_at: Moment


class RefusedPriceOut(Out):
    resource: str = read_from("refused.price.key.resource")
    region: str = read_from("refused.price.key.region")
    provisioning_model: Provisioning = read_from("refused.price.key.provisioning_model")
    rate: _UnitPrice = read_from("refused.price.rate_nanos")
    unit: Annotated[str, one_of(Unit)] = read_from("refused.price.unit")
    source: str = read_from("refused.price.source")
    reason: str = read_from(
        "refused.reason", description="The reason why it failed the sanity check; the last good price stays in force."
    )
    refused_at: Moment


class UnpricedUseOut(Out):
    project: str = read_from("key.project")
    gce_id: str = read_from("key.gce_id")
    name: str
    reason: str


class PricesResponse(Out):
    as_of: Moment
    age_seconds: Seconds | None = Field(description="Seconds since a price was last added.")
    currency: str = CURRENCY
    recorded_at: Moment | None
    sources: list[str]
    unpriced_total: int = Field(description="The number of lifetimes and disks in use now that have no price.")
    unpriced: list[UnpricedUseOut] = Field(
        description=f"The first {_LISTED_UNPRICED} lifetimes and disks in use without a price."
    )
    refused: list[RefusedPriceOut]
    prices: list[PriceOut] = Field(description="The prices by resource, region and model, each with the latest first.")
    next_cursor: str | None = Field(
        description="The `cursor` of the next page of prices; null: this was the last page."
    )


class PriceQuery(Query):
    resource: Text | None = Field(None, description="The beginning of a resource's name.", examples=["gpu:"])
    region: Text | None = None
    history: bool = Field(False, description="Include prices that are no longer, or not yet, in force.")
    limit: int = Field(5000, ge=1, le=10_000)
    cursor: Text | None = None


@router.get("/prices", summary="List prices", operation_id="listPrices")
def prices(deps: Given, query: Annotated[PriceQuery, Parameter()]) -> PricesResponse:
    """Lists the price of a unit of each billed resource by region, with its first moment and its source."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        stored = price_list.listed(connection)
        refused = price_list.refusals(connection)
        book = PriceBook(listed.price for listed in stored)
        today = gaps(connection, Accrual(book, now), now.date(), now.date(), Scope())
    unpriced = [span for span in today if span.ended_at is None]
    recorded_at = max((listed.recorded_at for listed in stored), default=None)
    page, more = _page([listed for listed in stored if _matches(listed, book, query, now)], query)
    return PricesResponse.model_validate(
        {
            "as_of": now,
            "recorded_at": recorded_at,
            "age_seconds": None if recorded_at is None else max(now - recorded_at, now - now),
            "sources": sorted({listed.price.source for listed in stored}),
            "unpriced_total": len(unpriced),
            "unpriced": unpriced[:_LISTED_UNPRICED],
            "refused": [listed for listed in refused if _is_asked_for(listed.refused.price.key, query)],
            "prices": [PriceOut.read(listed, is_in_force=_is_in_force(listed, book, now)) for listed in page],
            "next_cursor": more,
        }
    )


def _page(listed: list[ListedPrice], query: PriceQuery) -> tuple[list[ListedPrice], str | None]:
    """All are read anyway, to know which are in force, so a page is cut out of them."""
    listed = sorted(listed, key=_place)
    if query.cursor is not None:
        resource, region, model, latest = cursors.decode(query.cursor, "prices", (str, str, str, int))
        after = (str(resource), str(region), str(model), int(latest))
        listed = [price for price in listed if _place(price) > after]
    page = listed[: query.limit]
    return page, cursors.encode("prices", *_place(page[-1])) if len(listed) > query.limit else None


def _place(listed: ListedPrice) -> tuple[str, str, str, int]:
    key = listed.price.key
    return key.resource, key.region, key.provisioning_model.value, -cursors.micros(listed.price.in_force_from)


def _matches(listed: ListedPrice, book: PriceBook, query: PriceQuery, now: datetime) -> bool:
    return _is_asked_for(listed.price.key, query) and (query.history or _is_in_force(listed, book, now))


def _is_in_force(listed: ListedPrice, book: PriceBook, now: datetime) -> bool:
    return book.at(listed.price.key, now) is listed.price


def _is_asked_for(key: PriceKey, query: PriceQuery) -> bool:
    return key.resource.startswith(query.resource or "") and query.region in (None, key.region)
