"""The prices that ship with Costguard."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from costguard.gce.prices import snapshot_prices
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_gate import judge
from costguard.ledger.pricing import rate_per_hour
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.money import Money
from costguard.model.price import PriceKey

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
NOW = datetime(2026, 11, 20, tzinfo=UTC)
REGIONS = ("us-central1", "us-east1", "us-west1", "europe-west4", "asia-east1")
SHAPES = {
    "t4": Shape("n1-standard-4", 4, 15 * 1024, "nvidia-tesla-t4", 1),
    "v100": Shape("n1-standard-8", 8, 30 * 1024, "nvidia-tesla-v100", 1),
    "l4": Shape("g2-standard-8", 8, 32 * 1024, "nvidia-l4", 1),
    "a100": Shape("a2-highgpu-1g", 12, 85 * 1024, "nvidia-tesla-a100", 1),
    "a100-80gb": Shape("a2-ultragpu-1g", 12, 170 * 1024, "nvidia-a100-80gb", 1, 375),
    "h100": Shape("a3-highgpu-8g", 208, 1872 * 1024, "nvidia-h100-80gb", 8, 16 * 375),
}


@pytest.fixture(scope="module")
def book() -> PriceBook:
    return PriceBook(snapshot_prices())


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_gpu_host_is_priced_and_spot_is_cheaper(book: PriceBook, name: str, region: str) -> None:
    """T4, V100, L4, A100 and H100 hosts have on-demand and Spot prices in each shipped region."""
    standard = rate_per_hour(SHAPES[name], region, STANDARD, book, NOW)
    spot = rate_per_hour(SHAPES[name], region, SPOT, book, NOW)
    assert standard is not None
    assert spot is not None
    assert Money() < spot < standard


@pytest.mark.parametrize(
    ("name", "dollars"), [("t4", "0.54"), ("a100", "3.67"), ("a100-80gb", "5.07"), ("l4", "0.85"), ("h100", "88.49")]
)
def test_totals_are_the_ones_that_google_publishes(book: PriceBook, name: str, dollars: str) -> None:
    """Hosts in us-central1 cost what Google's pages say they cost in all, where a month is shown as 730 hours."""
    shape = SHAPES[name]
    rate = rate_per_hour(replace(shape, local_ssd_gib=0), "us-central1", STANDARD, book, NOW)
    local_ssd = book.at(PriceKey("local-ssd", "us-central1", STANDARD), NOW)
    assert rate is not None
    assert local_ssd is not None
    shown = rate.dollars + Money(local_ssd.rate_nanos * shape.local_ssd_gib // 730).dollars
    assert round(shown, 2) == Money.of(dollars).dollars


@pytest.mark.parametrize("resource", ["disk:pd-standard", "disk:pd-balanced", "disk:pd-ssd", "local-ssd"])
def test_disks_are_priced_everywhere(book: PriceBook, resource: str) -> None:
    """The common disk types have a price in each shipped region."""
    assert all(book.at(PriceKey(resource, region, STANDARD), NOW) for region in REGIONS)


def test_no_figure_is_given_twice() -> None:
    """A key has one price, and each carries its snapshot's date: Compute Engine's, or that of Vertex AI."""
    prices = snapshot_prices()
    assert len({price.key for price in prices}) == len(prices)
    dated = {"snapshot 2026-11-20", "snapshot 2026-11-20, estimated", "snapshot 2026-11-29"}
    assert {price.source for price in prices} == dated


def test_the_snapshot_passes_the_gate() -> None:
    """The shipped prices would be believed if the catalogue said them."""
    prices = {price.key: price for price in snapshot_prices()}
    for key, price in prices.items():
        on_demand = prices.get(PriceKey(key.resource, key.region, STANDARD))
        elsewhere = [
            other
            for sibling, other in prices.items()
            if (sibling.resource, sibling.provisioning_model) == (key.resource, STANDARD)
            and sibling.region != key.region
        ]
        assert judge(price, None, on_demand, NOW, elsewhere) is None
