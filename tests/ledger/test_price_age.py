"""Shipped prices show their age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from costguard.gce.prices import snapshot_prices
from costguard.ledger.accrual import Accrual
from costguard.ledger.price_book import PriceBook
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

SPOT = ProvisioningModel.SPOT
A2 = Shape("a2-highgpu-1g", 12, 87040, "nvidia-tesla-a100", 1)
SHIPPED_AT = datetime(2026, 9, 1, tzinfo=UTC)


def price(resource: str, source: str, at: datetime = SHIPPED_AT) -> Price:
    key = PriceKey(resource, "us-central1", SPOT)
    return Price(key, Unit.HOUR, Money.of("1").nanos, at, source)


def accrual(*prices: Price, days: int = 0) -> Accrual:
    return Accrual(PriceBook(prices), SHIPPED_AT + timedelta(days=days))


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (1, "Its prices came with Costguard, the oldest from 1 September 2026 (1 day old)."),
        (60, "Its prices came with Costguard, the oldest from 1 September 2026 (60 days old)."),
        (61, "An estimate: its prices came with Costguard, the oldest from 1 September 2026 (61 days old)."),
    ],
)
def test_a_shipped_price_becomes_an_estimate_after_sixty_days(days: int, text: str) -> None:
    """Spot prices of A100 were a quarter below the catalogue's when they had aged."""
    assert accrual(price("a2:core", "snapshot 2026-09-01"), days=days).price_note == text


def test_sums_say_nothing_once_a_catalogue_was_read() -> None:
    """A VM still does where the catalogue has no price of a part of it."""
    mixed = accrual(price("a2:core", "catalog"), price("a2:ram", "snapshot 2026-09-01"), days=90)
    assert mixed.price_note is None
    note = mixed.note_of(A2, "us-central1-a", SPOT)
    assert note is not None
    assert note.startswith("An estimate: ")


def test_a_vm_of_the_catalogue_says_nothing() -> None:
    """A newer price of the catalogue is in force in the place of the shipped one."""
    shipped = [price(name, "snapshot 2026-09-01") for name in ("a2:core", "a2:ram", "gpu:nvidia-tesla-a100")]
    read = [price(one.key.resource, "catalog", SHIPPED_AT + timedelta(days=1)) for one in shipped]
    assert accrual(*shipped, *read, days=90).note_of(A2, "us-central1-a", SPOT) is None


def test_all_that_ships_is_an_estimate_by_now() -> None:
    """The oldest figure of the snapshot is of March 2025, whenever its file was written."""
    shipped = Accrual(PriceBook(snapshot_prices()), datetime(2026, 11, 27, tzinfo=UTC))
    note = shipped.note_of(A2, "us-central1-a", SPOT)
    assert note == "An estimate: its prices came with Costguard, the oldest from 6 March 2025 (631 days old)."
