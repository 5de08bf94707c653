"""Prices in force, listed prices, and refused ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Row, exists, insert, select, update

from costguard.db.remembered import database_of, is_writing, state_of
from costguard.db.tables import price_refusals, prices
from costguard.db.upsert import upsert
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


# Every page, message and pass needs all prices, and making thousands of values takes longer than the rest of a
# message.
_loaded: WeakKeyDictionary[Engine, tuple[tuple[int, int], tuple[Price, ...]]] = WeakKeyDictionary()
# By transaction. Writers take turns, so that in one that writes only what it does itself changes them.
_seen: WeakKeyDictionary[Connection, tuple[Price, ...]] = WeakKeyDictionary()


def load(connection: Connection) -> tuple[Price, ...]:
    """Every price that ever was in force, with its id; one and the same object until they change."""
    if (seen := _seen.get(connection)) is not None:
        return seen
    state, database = state_of(connection, prices), database_of(connection)
    kept = _loaded.get(database)
    if kept is None or kept[0] != state:
        loaded = tuple(_price(row, row.id) for row in connection.execute(select(prices)))
        # What a transaction that writes sees may be undone, and its number given out again.
        if state is not None and not is_writing(connection):
            _loaded[database] = state, loaded
    else:
        loaded = kept[1]
    _seen[connection] = loaded
    return loaded


def by_id(connection: Connection) -> dict[int, Price]:
    return {price.id: price for price in load(connection) if price.id is not None}


def any_stored(connection: Connection) -> bool:
    return bool(connection.execute(select(exists(select(prices.c.id)))).scalar())


def add(connection: Connection, new: Sequence[Price], recorded_at: datetime) -> int:
    """Adds prices, and returns how many were new; a price that is stored for the same key and time stays as it is."""
    rows = [{**_row(price), "recorded_at": recorded_at} for price in new]
    _seen.pop(connection, None)
    return upsert(connection, prices, rows, ("resource", "region", "provisioning_model", "in_force_from"), ())


def replace(connection: Connection, price_id: int, new: Price, recorded_at: datetime) -> None:
    """Correct a stored price that never was the real one. Its charges must be made again."""
    statement = update(prices).where(prices.c.id == price_id)
    _seen.pop(connection, None)
    connection.execute(statement.values(**_row(new), recorded_at=recorded_at))


def refuse(connection: Connection, refused: Iterable[RefusedPrice], refused_at: datetime) -> int:
    """Records refusals, and returns how many are new. The same rate for the same key is refused, and shown, once."""
    identities = {
        (row.resource, row.region, row.provisioning_model, row.rate_nanos)
        for row in connection.execute(
            select(
                price_refusals.c.resource,
                price_refusals.c.region,
                price_refusals.c.provisioning_model,
                price_refusals.c.rate_nanos,
            )
        )
    }
    rows = []
    for one in refused:
        row = {**_row(one.price), "reason": one.reason, "refused_at": refused_at}
        identity = (row["resource"], row["region"], row["provisioning_model"], row["rate_nanos"])
        if identity not in identities:
            identities.add(identity)
            rows.append(row)
    if rows:
        connection.execute(insert(price_refusals), rows)
    return len(rows)


def _row(price: Price) -> dict[str, Any]:
    return {
        "resource": price.key.resource,
        "region": price.key.region,
        "provisioning_model": price.key.provisioning_model.value,
        "unit": price.unit.value,
        "rate_nanos": price.rate_nanos,
        "in_force_from": price.in_force_from,
        "source": price.source,
        "sku_id": price.sku_id,
    }
