"""Fetches, checks and stores prices, and charges again what they change."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from costguard.db.health_rows import PRICES_READ
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import PriceSourceError
from costguard.events import audit_log
from costguard.ledger import prices
from costguard.ledger.charged import charges
from costguard.ledger.price_gate import judge
from costguard.ledger.running import running_totals
from costguard.model.event import Event, new_event
from costguard.model.instance import ProvisioningModel
from costguard.model.moments import utc_text
from costguard.model.money import Money, exact_text
from costguard.model.ports import PriceSource
from costguard.model.price import Price, PriceKey, RefusedPrice

_SNAPSHOT = "snapshot"
_INSTANT = timedelta(microseconds=1)
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_FETCH = timedelta(minutes=2)
_LOOK_UP = timedelta(seconds=0.5)  # how soon a shutdown is noticed


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The number of prices that were fetched, are new, changed, and were refused; and of spans charged again."""

    fetched: int = 0
    added: int = 0
    changed: int = 0
    refused: int = 0
    recharged: int = 0


def seed_snapshot(database: Database, snapshot: Sequence[Price], now: datetime, fence: Lease | None = None) -> int:
    """Store the shipped prices where none are stored yet; how many were."""
    with database.write(fence) as connection:
        if prices.any_stored(connection):
            return 0
        added = prices.add(connection, snapshot, now)
        charges.recharge_unpriced(connection)
    running_totals.catch_up(database, now, fence)
    return added


def refresh(database: Database, source: PriceSource, now: datetime, fence: Lease | None = None) -> RefreshResult:
    """Bring the stored prices up to date. Raises PriceSourceError, with every stored price as it was.

    A price is stored only when its rate is not the one in force. The refused are kept, and told once.
    """
    return record(database, source.fetch(), now, fence)


def record(database: Database, fetched: Sequence[Price], now: datetime, fence: Lease | None = None) -> RefreshResult:
    """Judge what a catalogue said, and store what is good and what is refused."""
    with database.write(fence) as connection:
        stored = _latest(prices.load(connection))
        good, refused = _judged(fetched, stored, now)
        news = [price for price in good if _is_news(price, stored.get(price.key))]
        added = [price for price in news if price.key not in stored]
        changes = [_Change(stored[price.key], price) for price in news if price.key in stored]
        dated = [change.dated(now) for change in changes]
        for change in dated:
            if change.corrects:
                assert change.old.id is not None
                prices.replace(connection, change.old.id, change.new, now)
        prices.add(connection, [*added, *(change.new for change in dated if not change.corrects)], now)
        refusals = prices.refuse(connection, refused, now)
        recharged = _recharge(connection, dated)
        if added:
            recharged += charges.recharge_unpriced(connection)
        result = RefreshResult(len(fetched), len(added), len(changes), refusals, recharged)
        audit_log.append(connection, [*_changed(dated), *_refused(refused, now), _read(result, now)], now)
    running_totals.catch_up(database, now, fence)
    return result


@dataclass(frozen=True, slots=True)
class _Change:
    old: Price
    new: Price

    @property
    def corrects(self) -> bool:
        """Says whether the old price never was the real one: the catalogue knows better than the snapshot since
        when.
        """
        return self.old.source.startswith(_SNAPSHOT) and self.new.in_force_from <= self.old.in_force_from

    def dated(self, now: datetime) -> _Change:
        """Dates the change after the price that it follows: one that claims to be older counts from now on."""
        if self.corrects or self.new.in_force_from > self.old.in_force_from:
            return self
        return replace(self, new=replace(self.new, in_force_from=max(now, self.old.in_force_from + _INSTANT)))


def _latest(stored: Sequence[Price]) -> dict[PriceKey, Price]:
    latest: dict[PriceKey, Price] = {}
    for price in stored:
        if price.key not in latest or price.in_force_from > latest[price.key].in_force_from:
            latest[price.key] = price
    return latest


def _is_news(price: Price, stored: Price | None) -> bool:
    return stored is None or (price.rate_nanos, price.unit) != (stored.rate_nanos, stored.unit)


def _judged(
    fetched: Sequence[Price], stored: Mapping[PriceKey, Price], now: datetime
) -> tuple[list[Price], list[RefusedPrice]]:
    """On-demand prices first: the good ones are what prices of Spot and flex-start are compared with."""
    everywhere: dict[str, dict[str, Price]] = defaultdict(dict)
    for price in (*stored.values(), *fetched):
        if price.key.provisioning_model is ProvisioningModel.STANDARD and price.rate_nanos > 0:
            everywhere[price.key.resource][price.key.region] = price
    on_demand = {key: price for key, price in stored.items() if key.provisioning_model is ProvisioningModel.STANDARD}
    good: list[Price] = []
    refused: list[RefusedPrice] = []
    for price in sorted(fetched, key=lambda one: one.key.provisioning_model is not ProvisioningModel.STANDARD):
        regions = everywhere[price.key.resource]
        elsewhere = [other for region, other in regions.items() if region != price.key.region]
        standard = PriceKey(price.key.resource, price.key.region, ProvisioningModel.STANDARD)
        reason = judge(price, stored.get(price.key), on_demand.get(standard), now, elsewhere)
        if reason is not None:
            refused.append(RefusedPrice(price, reason))
            continue
        good.append(price)
        if price.key == standard:
            on_demand[standard] = price
    return good, refused


def _recharge(connection: Connection, changes: Sequence[_Change]) -> int:
    since: dict[str, datetime] = {}
    for change in changes:
        region = change.new.key.region
        # A corrected price was the first of its key, and so held for all that came before it too.
        moment = _EVER if change.corrects else change.new.in_force_from
        since[region] = min(moment, since.get(region, moment))
    return sum(charges.recharge_since(connection, moment, region) for region, moment in since.items())


def _read(result: RefreshResult, now: datetime) -> Event:
    return new_event(
        PRICES_READ,
        now,
        f"The price catalogue was read: {result.fetched} prices, {result.added} new, {result.changed} changed, "
        f"{result.refused} refused.",
        now.isoformat(),
    )


def _changed(changes: Sequence[_Change]) -> Iterator[Event]:
    """Yields events of changes.

    Shipped prices that give way to the catalogue's at the first reading are not reported one by one.
    """
    for change in changes:
        if change.old.source.startswith(_SNAPSHOT):
            continue
        key, new = change.new.key, change.new
        yield new_event(
            "PriceChanged",
            new.in_force_from,
            f"{_said(key)} costs {_rate(new)} from {utc_text(new.in_force_from)} on, "
            f"where {_rate(change.old)} was known.",
            *(_path(key), new.in_force_from.isoformat(), new.rate_nanos),
            data={"source": new.source, "sku_id": new.sku_id},
        )


def _refused(refused: Sequence[RefusedPrice], now: datetime) -> Iterator[Event]:
    for one in refused:
        key, price = one.price.key, one.price
        yield new_event(
            "PriceRefused",
            now,
            f"{_rate(price)} for {_said(key)} was refused, and the last good price stays. {one.reason}",
            *(_path(key), price.rate_nanos),
            data={"source": price.source, "sku_id": price.sku_id},
        )


def _path(key: PriceKey) -> str:
    return f"{key.resource}/{key.region}/{key.provisioning_model}"


def _said(key: PriceKey) -> str:
    return f"{key.resource} ({key.provisioning_model.in_words}) in {key.region}"


def _rate(price: Price) -> str:
    return f"{exact_text(Money(price.rate_nanos))} per {price.unit.value}"


def patiently(fetch: Callable[[], Sequence[Price]], stop: threading.Event) -> Sequence[Price] | None:
    """Returns the catalogue's prices; None when we are to end. A server that is slow or silent holds up nobody.

    Its thread is left alone after a while: it ends with its own time limits, or with the process.
    """
    answers: queue.SimpleQueue[Sequence[Price] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(fetch())
        except Exception as error:  # raised again where it is waited for
            answers.put(error)

    threading.Thread(target=ask, name="prices", daemon=True).start()
    for _ in range(_LONGEST_FETCH // _LOOK_UP):
        if stop.is_set():
            return None
        try:
            answer = answers.get(timeout=_LOOK_UP.total_seconds())
        except queue.Empty:
            continue
        if isinstance(answer, Exception):
            raise answer
        return answer
    raise PriceSourceError(
        f"The price catalogue did not come within {_LONGEST_FETCH.seconds} s.",
        "The last good prices stay in force; it is asked again at the next refresh.",
    )
