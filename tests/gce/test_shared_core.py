"""Shared-core machine types: what they bill, at which price.

The figures are those of Google's VM instance pricing page for Iowa (us-central1, late 2025 or later). The Cloud
Billing Catalog of August 2023 (apache/libcloud, pricing.json at 6e39117d) has the same for f1-micro to e2-medium, and
infracost's tests of 1 July 2026 (95ba4f49) for f1-micro and e2-medium. Of custom types nothing is published but the
prices of a custom vCPU and a custom GiB; the share of a vCPU is that of the predefined types.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from costguard.gce.machine_types import by_rule
from costguard.gce.prices import snapshot_prices
from costguard.ledger.billed.machine_parts import parts_of_shape
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import bill_lifetime, rate_per_hour
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime

STANDARD = ProvisioningModel.STANDARD
APRIL = datetime(2026, 4, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def book() -> PriceBook:
    return PriceBook(snapshot_prices())


def shape_of(machine_type: str) -> Shape:
    shape = by_rule(machine_type)
    assert shape is not None
    return Shape(machine_type, *shape)


@pytest.mark.parametrize(
    ("machine_type", "dollars"),
    [
        ("f1-micro", "0.0076"),
        ("g1-small", "0.0257"),
        ("e2-micro", "0.008376428"),
        ("e2-small", "0.016752855"),
        ("e2-medium", "0.033505710"),
        ("e2-custom-micro-1024", "0.008795249"),
        ("e2-custom-micro-2048", "0.011864956"),
        ("e2-custom-small-2048", "0.017590499"),
        ("e2-custom-small-4096", "0.023729913"),
        ("e2-custom-medium-4096", "0.035180998"),
        ("e2-custom-medium-8192", "0.047459826"),
    ],
)
def test_shared_core_costs_what_google_publishes(book: PriceBook, machine_type: str, dollars: str) -> None:
    """The figures are exact to the nano-dollar an hour, whatever number of vCPUs the API shows."""
    rate = rate_per_hour(shape_of(machine_type), "us-central1", STANDARD, book, APRIL)
    assert rate is not None
    assert abs(rate.dollars - Decimal(dollars)) <= Decimal("1e-9")


@pytest.mark.parametrize("machine_type", ["f1-micro", "g1-small"])
def test_one_price_holds_cores_and_memory(machine_type: str) -> None:
    """Nothing is billed next to the one SKU."""
    (part,) = parts_of_shape(shape_of(machine_type))
    assert part.resource == f"{machine_type}:whole"
    assert part.quantity == 1


def test_custom_shared_core_is_an_estimate(book: PriceBook) -> None:
    """Sources disagree on its price, so the price says that it is estimated."""
    lifetime = Lifetime(InstanceKey("p", "1"), APRIL, shape_of("e2-custom-micro-1024"), STANDARD, "us-central1-a")
    assert bill_lifetime(lifetime, book, APRIL + timedelta(hours=1)).unpriced == ""
    assert {price.source for price in snapshot_prices() if price.key.resource.startswith("e2-custom:")} == {
        "snapshot 2026-11-20, estimated"
    }
