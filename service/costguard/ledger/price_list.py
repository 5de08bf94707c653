"""Reading prices for people: each with when it was recorded, and those that were refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from costguard.db.tables import price_refusals, prices
from costguard.model.instance import ProvisioningModel
from costguard.model.price import Price, PriceKey, RefusedPrice, Unit


@dataclass(frozen=True, slots=True)
class ListedPrice:
    price: Price
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class ListedRefusal:
    refused: RefusedPrice
    refused_at: datetime


def listed(connection: Connection) -> list[ListedPrice]:
    """Every price that ever was in force, by resource, region and model, the latest first."""
    order = (prices.c.resource, prices.c.region, prices.c.provisioning_model, prices.c.in_force_from.desc())
    rows = connection.execute(select(prices).order_by(*order))
    return [ListedPrice(_price(row, row.id), row.recorded_at) for row in rows]


def refusals(connection: Connection) -> list[ListedRefusal]:
    """Prices that the sanity gate refused, the latest first."""
    rows = connection.execute(select(price_refusals).order_by(price_refusals.c.refused_at.desc(), price_refusals.c.id))
    return [ListedRefusal(RefusedPrice(_price(row, None), row.reason), row.refused_at) for row in rows]


def _price(row: Row[Any], price_id: int | None) -> Price:
    return Price(
        key=PriceKey(row.resource, row.region, ProvisioningModel(row.provisioning_model)),
        unit=Unit(row.unit),
        rate_nanos=row.rate_nanos,
        in_force_from=row.in_force_from,
        source=row.source,
        sku_id=row.sku_id,
        id=price_id,
    )
