"""Prices are believed, or refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from costguard.ledger.price_gate import judge
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
NOW = datetime(2026, 11, 20, tzinfo=UTC)


def price(
    dollars: str,
    resource: str = "gpu:nvidia-tesla-t4",
    region: str = "us-central1",
    model: ProvisioningModel = STANDARD,
    unit: Unit = Unit.HOUR,
    since: datetime = NOW,
) -> Price:
    return Price(PriceKey(resource, region, model), unit, Money.of(dollars).nanos, since, "catalog")


def test_an_ordinary_change_is_believed() -> None:
    """A list price may move by some per cent, and a Spot price by more."""
    assert judge(price("0.36"), price("0.35"), None, NOW, [price("0.37", region="europe-west4")]) is None
    assert judge(price("0.05", model=SPOT), price("0.2", model=SPOT), price("0.35"), NOW) is None


@pytest.mark.parametrize("dollars", ["0", "-0.1"])
def test_nothing_is_free(dollars: str) -> None:
    """A price of zero or less is refused."""
    assert judge(price(dollars), price("0.35"), None, NOW) == "A price must be above zero."


@pytest.mark.parametrize("dollars", ["0.35", "0.36"])
def test_spot_is_cheaper_than_on_demand(dollars: str) -> None:
    """A Spot price at or above the on-demand one is refused, with both figures."""
    reason = judge(price(dollars, model=SPOT), None, price("0.35"), NOW)
    assert reason == f"The Spot price ${dollars} per h is not below the on-demand price $0.35 per h."


@pytest.mark.parametrize(
    ("dollars", "model", "refused"),
    [
        ("1.06", STANDARD, True),
        ("1.05", STANDARD, False),
        ("0.116", STANDARD, True),
        ("0.034", SPOT, True),
        ("0.036", SPOT, False),
        ("1.4", SPOT, False),
    ],
)
def test_a_wild_jump_is_refused(dollars: str, model: ProvisioningModel, refused: bool) -> None:
    """More than three times off the last good price, or ten times for Spot, is a mistake and not a price."""
    reason = judge(price(dollars, model=model), price("0.35", model=model), None, NOW)
    assert (reason is not None) is refused


@pytest.mark.parametrize(
    ("resource", "unit"),
    [("n1:core", Unit.GIB_HOUR), ("n1:ram", Unit.HOUR), ("disk:pd-ssd", Unit.HOUR), ("gpu:x", Unit.GIB_MONTH)],
)
def test_a_price_in_a_wrong_unit_is_refused(resource: str, unit: Unit) -> None:
    """Memory is never priced per hour alone, nor a GPU per GiB."""
    assert "is billed per" in (judge(price("1", resource, unit=unit), None, None, NOW) or "")


def test_a_unit_may_change_when_the_price_does_not() -> None:
    """Local SSD priced by the hour instead of by the month is compared as what it costs an hour."""
    monthly = price("0.073", "local-ssd", unit=Unit.GIB_MONTH)
    assert judge(price("0.0001", "local-ssd", unit=Unit.GIB_HOUR), monthly, None, NOW) is None


def test_the_far_future_is_refused() -> None:
    """A price announced for next year is not taken today."""
    assert judge(price("0.35", since=NOW + timedelta(days=31)), None, None, NOW) is None
    assert "more than 31 days ahead" in (judge(price("0.35", since=NOW + timedelta(days=32)), None, None, NOW) or "")


# A public catalogue of GPU prices (github.com/skypilot-org/skypilot-catalog, 017e2502) has these on-demand rows.
LISTED = {
    ("gpu:nvidia-tesla-a100", "us-central1"): "2.93391",
    ("gpu:nvidia-tesla-a100", "us-east1"): "2.93391",
    ("gpu:nvidia-tesla-a100", "europe-west4"): "1.61365",
    ("gpu:nvidia-a100-80gb", "us-central1"): "1.8462",
    ("gpu:nvidia-a100-80gb", "europe-west4"): "2.03285",
    ("gpu:nvidia-h100-80gb", "us-central1"): "4.20076",
    ("gpu:nvidia-h100-80gb", "europe-west4"): "12.73552",
    ("gpu:nvidia-h100-80gb", "asia-east1"): "11.34343",
}
# What is known from Google where that catalogue says nothing.
KNOWN = {
    ("gpu:nvidia-a100-80gb", "us-east1"): "3.93",
    ("gpu:nvidia-a100-80gb", "us-west1"): "3.93",
    ("gpu:nvidia-a100-80gb", "asia-east1"): "4.548324",
}
SUSPECT = {
    ("gpu:nvidia-tesla-a100", "europe-west4"),
    ("gpu:nvidia-a100-80gb", "us-central1"),
    ("gpu:nvidia-a100-80gb", "europe-west4"),
    ("gpu:nvidia-h100-80gb", "us-central1"),
}


def test_the_gate_catches_the_mistakes_of_a_real_catalogue() -> None:
    """Halved prices pass every other rule, but no region sells a GPU at half of what the others do."""
    rows = {**KNOWN, **LISTED}
    refused = set()
    for resource, region in LISTED:
        elsewhere = [price(rows[r, g], r, g) for r, g in rows if r == resource and g != region]
        if judge(price(rows[resource, region], resource, region), None, None, NOW, elsewhere):
            refused.add((resource, region))
    assert refused == SUSPECT
