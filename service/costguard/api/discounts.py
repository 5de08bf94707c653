"""Discounts that are not in spend, as estimates."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field, StringConstraints

from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Query, Text, Usd, usd
from costguard.api.route import routes
from costguard.engine.accrual import book_of
from costguard.engine.discounts import sustained_use
from costguard.model.money import ZERO

router = routes("spend")

_METHOD = (
    "Sustained-use discounts of N1 vCPUs, memory and GPUs, on demand: each further quarter of the month costs 100, 80, "
    "60 and 40 % of the list price. Use is added up per project, region and resource, as Google does per billing "
    "account. Committed use is not known. An estimate; amounts of spend are without it."
)


class Discount(Out):
    project: str
    region: str
    resource: str = Field(examples=["n1:core"])
    discount: Usd


class Discounts(Out):
    as_of: Moment
    currency: str = CURRENCY
    month: str = Field(description="The calendar month, UTC.", examples=["2026-11"])
    method: str = Field(default=_METHOD, description="How the estimate is made.")
    discounts: list[Discount]
    total: Usd


class DiscountQuery(Query):
    month: Annotated[str, StringConstraints(pattern=r"^20\d\d-(0[1-9]|1[0-2])$")] | None = Field(
        None, description="Such as 2026-11; default: this month."
    )
    project: Text | None = None


@router.get("/discounts", summary="What discounts will probably take off, estimated", operation_id="listDiscounts")
def discounts(deps: Given, query: Annotated[DiscountQuery, Parameter()]) -> Discounts:
    """Sustained-use discounts of one month so far: an estimate, never part of spend."""
    now = deps.clock.now()
    year, month = map(int, query.month.split("-")) if query.month else (now.year, now.month)
    with deps.database.read() as connection:
        book = book_of(connection)
        found = sustained_use(connection, book, now.date().replace(year=year, month=month, day=1), now)
    rows = [one for one in found if query.project in (None, one.project)]
    return Discounts(
        as_of=now,
        month=f"{year:04d}-{month:02d}",
        discounts=[
            Discount(project=one.project, region=one.region, resource=one.resource, discount=usd(one.discount))
            for one in rows
        ],
        total=usd(sum((one.discount for one in rows), ZERO)),
    )
