"""Prices in force, prices refused, and what in use has none."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Provisioning, Query, Text, Usd, one_of, usd
from costguard.api.route import routes
from costguard.ledger import price_list
from costguard.ledger.accrual import Accrual
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_list import ListedPrice
from costguard.model.money import Money
from costguard.model.price import Price as KnownPrice
from costguard.model.price import PriceKey, Unit
from costguard.spend import spend

router = routes("prices")

_LISTED_UNPRICED = 100


class Price(Out):
    resource: str = Field(examples=["a2:core"])
    region: str
    provisioning_model: Provisioning
    rate: Usd = Field(description="Dollars per unit.")
    unit: str = Field(description="h, GiBy.h or GiBy.mo (the calendar month in US Pacific time).")
    in_force_from: Moment
    is_in_force: bool = Field(
        description="False: a later price of the same resource replaced it, or it is yet to come."
    )
    source: str
    sku_id: str
    recorded_at: Moment


class RefusedPrice(Out):
    resource: str
    region: str
    provisioning_model: Provisioning
    rate: Usd
    unit: Annotated[str, one_of(Unit)]
    source: str
    reason: str = Field(description="Why it failed the sanity gate; the last good price stays in force.")
    refused_at: Moment


class UnpricedUse(Out):
    project: str
    gce_id: str
    name: str
    reason: str


class Prices(Out):
    as_of: Moment
    age_seconds: int | None = Field(description="Since a price was last added.")
    currency: str = CURRENCY
    recorded_at: Moment | None
    sources: list[str]
    unpriced_total: int = Field(description="Lifetimes and disks in use now that have no price.")
    unpriced: list[UnpricedUse] = Field(description=f"The first {_LISTED_UNPRICED} of them.")
    refused: list[RefusedPrice]
    prices: list[Price] = Field(description="By resource, region and model; of each the latest first.")
    next_cursor: str | None = Field(description="Of the prices alone; null: this was the last page.")


class PriceQuery(Query):
    resource: Text | None = Field(None, description="The beginning of a resource's name.", examples=["gpu:"])
    region: Text | None = None
    history: bool = Field(False, description="Also prices that are no longer, or not yet, in force.")
    limit: int = Field(5000, ge=1, le=10_000)
    cursor: Text | None = None


@router.get("/prices", summary="Prices, refusals, and what has no price", operation_id="listPrices")
def prices(deps: Given, query: Annotated[PriceQuery, Parameter()]) -> Prices:
    """What a unit of each billed resource costs where, since when, and who says so."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        known = price_list.listed(connection)
        refused = price_list.refusals(connection)
        book = PriceBook(listed.price for listed in known)
        today = spend.spend(connection, Accrual(book, now), now.date(), now.date(), [])
    unpriced = [span for span in today.unpriced if span.ended_at is None]
    recorded_at = max((listed.recorded_at for listed in known), default=None)
    shown = [
        listed
        for listed in known
        if _is_asked_for(listed.price.key, query) and (query.history or book.at(listed.price.key, now) is listed.price)
    ]
    page, more = _page(shown, query)
    return Prices(
        as_of=now,
        recorded_at=recorded_at,
        age_seconds=None if recorded_at is None else max(0, (now - recorded_at) // timedelta(seconds=1)),
        sources=sorted({listed.price.source for listed in known}),
        unpriced_total=len(unpriced),
        unpriced=[
            UnpricedUse(project=each.key.project, gce_id=each.key.gce_id, name=each.name, reason=each.reason)
            for each in unpriced[:_LISTED_UNPRICED]
        ],
        refused=[
            RefusedPrice(
                **_key(listed.refused.price),
                source=listed.refused.price.source,
                reason=listed.refused.reason,
                refused_at=listed.refused_at,
            )
            for listed in refused
            if _is_asked_for(listed.refused.price.key, query)
        ],
        prices=[_price(listed, book, now) for listed in page],
        next_cursor=more,
    )


def _page(found: list[ListedPrice], query: PriceQuery) -> tuple[list[ListedPrice], str | None]:
    """All are read anyway, to know which are in force: a page is cut out of them."""
    found = sorted(found, key=_place)
    if query.cursor is not None:
        resource, region, model, latest = cursors.decode(query.cursor, "prices", (str, str, str, int))
        after = (str(resource), str(region), str(model), int(latest))
        found = [listed for listed in found if _place(listed) > after]
    page = found[: query.limit]
    return page, cursors.encode("prices", *_place(page[-1])) if len(found) > query.limit else None


def _place(of: ListedPrice) -> tuple[str, str, str, int]:
    key = of.price.key
    return key.resource, key.region, key.provisioning_model.value, -cursors.micros(of.price.in_force_from)


def _price(listed: ListedPrice, book: PriceBook, now: datetime) -> Price:
    price = listed.price
    return Price(
        **_key(price),
        in_force_from=price.in_force_from,
        is_in_force=book.at(price.key, now) is price,
        source=price.source,
        sku_id=price.sku_id,
        recorded_at=listed.recorded_at,
    )


def _key(price: KnownPrice) -> dict[str, str]:
    return {
        "resource": price.key.resource,
        "region": price.key.region,
        "provisioning_model": price.key.provisioning_model.value,
        "rate": usd(Money(price.rate_nanos)),
        "unit": price.unit.value,
    }


def _is_asked_for(key: PriceKey, query: PriceQuery) -> bool:
    return key.resource.startswith(query.resource or "") and query.region in (None, key.region)
