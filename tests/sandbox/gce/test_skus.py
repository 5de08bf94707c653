"""The price list of the simulated cloud, and the catalogue that words it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.sandbox.gce.conformance.discovery import problems

from costguard_sandbox.gce.catalogue.prices import OPENING, NoRate, PriceList
from costguard_sandbox.gce.catalogue.skus import skus_page
from costguard_sandbox.gce.responses import BadPageToken

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def every_sku(price_list: PriceList, at: datetime = NOW, size: int = 0) -> Iterator[dict[str, Any]]:
    token: str | None = None
    while True:
        page = skus_page(price_list, at, size, token)
        yield from page["skus"]
        token = page["nextPageToken"]
        if not token:
            return


def priced(price_list: PriceList, description: str, region: str, at: datetime = NOW) -> tuple[int, str]:
    """(nano-dollars, effective time) of the one SKU of that description that covers the region."""
    (sku,) = (
        one
        for one in every_sku(price_list, at)
        if one["description"] == description and region in one["serviceRegions"]
    )
    info = sku["pricingInfo"][0]
    price = info["pricingExpression"]["tieredRates"][0]["unitPrice"]
    return int(price["units"]) * 10**9 + price["nanos"], info["effectiveTime"]


@pytest.mark.parametrize(
    ("resource", "spot", "nanos", "unit"),
    [
        ("n1:core", False, 31_611_000, "h"),
        ("n1:ram", False, 4_237_000, "GiBy.h"),
        ("gpu:nvidia-tesla-t4", False, 350_000_000, "h"),
        ("gpu:nvidia-tesla-t4", True, 140_000_000, "h"),
        ("gpu:nvidia-l4", False, 560_040_240, "h"),
        ("gpu:nvidia-tesla-v100", False, 2_480_000_000, "h"),
        ("gpu:nvidia-tesla-a100", False, 2_933_908_000, "h"),
        ("gpu:nvidia-a100-80gb", False, 3_928_080_000, "h"),
        ("gpu:nvidia-h100-80gb", False, 9_796_550_569, "h"),
        ("disk:pd-balanced", False, 100_000_000, "GiBy.mo"),
        ("disk:pd-balanced", True, 100_000_000, "GiBy.mo"),
        ("suspended-memory", True, 170_000_000, "GiBy.mo"),
        ("local-ssd", False, 80_000_000, "GiBy.mo"),
        ("local-ssd", True, 32_000_000, "GiBy.mo"),
    ],
)
def test_figures_are_googles_and_disks_know_no_spot(resource: str, spot: bool, nanos: int, unit: str) -> None:
    """us-central1 costs what Google publishes; a disk costs a Spot VM what it costs any other."""
    assert PriceList().rate(resource, "us-central1", spot, NOW) == (nanos, unit)


def test_spot_is_never_dearer_than_on_demand() -> None:
    """Spot is cheaper in every region, for everything that is sold both ways."""
    prices = PriceList()
    for resource, region, spot in prices.sold():
        if spot:
            rate, _ = prices.rate(resource, region, True, NOW)
            assert 0 < rate < prices.rate(resource, region, False, NOW)[0]


def test_a_price_changes_from_a_moment_on() -> None:
    """The old price holds until the very moment, the new one from it on, and the history keeps both."""
    prices = PriceList()
    later = NOW + timedelta(hours=1)
    prices.change("gpu:nvidia-tesla-t4", "us-east1", True, 99_000_000, later)
    before = later - timedelta(microseconds=1)
    assert prices.rate("gpu:nvidia-tesla-t4", "us-east1", True, before)[0] == 140_000_000
    assert prices.rate("gpu:nvidia-tesla-t4", "us-east1", True, later)[0] == 99_000_000
    assert prices.rate("gpu:nvidia-tesla-t4", "us-central1", True, later)[0] == 140_000_000
    assert prices.history("gpu:nvidia-tesla-t4", "us-east1", True) == ((OPENING, 140_000_000), (later, 99_000_000))
    with pytest.raises(ValueError, match="already has a price"):
        prices.change("gpu:nvidia-tesla-t4", "us-east1", True, 98_000_000, later)


@pytest.mark.parametrize("resource", ["gpu:nvidia-h100-80gb", "a2:core", "z9:core"])
def test_what_is_not_sold_in_a_region_has_no_rate(resource: str) -> None:
    """Regions lack what Google does not have there, hosts of missing GPUs included."""
    with pytest.raises(NoRate, match="europe-north1"):
        PriceList().rate(resource, "europe-north1", False, NOW)


@pytest.mark.parametrize("size", [0, 800, 5000, 9999])
def test_the_catalogue_pages_without_loss(size: int) -> None:
    """Every SKU appears once, ordered by id, whatever the page size, and the last page has an empty token."""
    ids = [one["skuId"] for one in every_sku(PriceList(), size=size)]
    assert ids == sorted(set(ids))
    assert len(ids) > 2000


def test_an_unknown_page_token_is_refused() -> None:
    """The catalogue does not start from the beginning for an unknown token."""
    with pytest.raises(BadPageToken):
        skus_page(PriceList(), NOW, 10, "rubbish")


def test_every_sku_has_the_catalogues_shape() -> None:
    """The answer passes the bundled schema of the Cloud Billing Catalog, in dollars throughout."""
    page = skus_page(PriceList(), NOW, 5000, None)
    assert problems(page, "ListSkusResponse", "cloudbilling") == []
    assert '"currencyCode": "USD"' in str(page).replace("'", '"')


@pytest.mark.parametrize(
    ("description", "region", "resource", "spot"),
    [
        ("N1 Predefined Instance Core running in Americas", "us-west1", "n1:core", False),
        ("Spot Preemptible N1 Predefined Instance Ram running in Americas", "us-east1", "n1:ram", True),
        ("Custom Instance Core running in Americas", "us-central1", "n1-custom:core", False),
        ("A2 Instance Core running in Netherlands", "europe-west4", "a2:core", False),
        ("Spot Preemptible A3 Instance Core running in Americas", "us-central1", "a3:core", True),
        ("N2D AMD Instance Ram running in APAC", "asia-east1", "n2d:ram", False),
        ("Compute optimized Core running in EMEA", "europe-west1", "c2:core", False),
        ("Nvidia Tesla T4 GPU running in Americas", "us-central1", "gpu:nvidia-tesla-t4", False),
        ("Nvidia L4 GPU attached to Spot Preemptible VMs running in APAC", "asia-east1", "gpu:nvidia-l4", True),
        ("Nvidia Tesla A100 80GB GPU running in Americas", "us-central1", "gpu:nvidia-a100-80gb", False),
        (
            "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Americas",
            "us-central1",
            "gpu:nvidia-h100-80gb",
            True,
        ),
        ("Storage PD Capacity", "asia-east1", "disk:pd-standard", False),
        ("Balanced PD Capacity in Netherlands", "europe-west4", "disk:pd-balanced", False),
        ("SSD backed PD Capacity", "europe-west1", "disk:pd-ssd", False),
        ("SSD backed Local Storage attached to Spot Preemptible VMs", "us-west1", "local-ssd", True),
    ],
)
def test_skus_are_worded_as_google_words_them(description: str, region: str, resource: str, spot: bool) -> None:
    """Each wording is in the catalogue once for its region, at the price list's rate."""
    prices = PriceList()
    assert priced(prices, description, region)[0] == prices.rate(resource, region, spot, NOW)[0]


def test_a_region_that_leaves_its_groups_price_gets_a_sku_of_its_own() -> None:
    """The catalogue follows a change from its moment on, with the time it came into force."""
    prices = PriceList()
    prices.change("a2:core", "us-west1", False, 30_000_000, NOW)
    before = NOW - timedelta(seconds=1)
    assert priced(prices, "A2 Instance Core running in Americas", "us-west1", before)[0] == 31_611_000
    assert priced(prices, "A2 Instance Core running in Oregon", "us-west1") == (
        30_000_000,
        "2026-11-21T00:00:00.000000Z",
    )
    assert priced(prices, "A2 Instance Core running in Americas", "us-central1")[0] == 31_611_000


def test_the_catalogue_has_look_alikes_of_prices() -> None:
    """Commitments, reservations at nothing, scheduled modes, premiums and regional disks, several of them OnDemand."""
    skus = {one["description"]: one for one in every_sku(PriceList())}
    usage = {name: one["category"]["usageType"] for name, one in skus.items()}
    assert usage["Commitment v1: Nvidia Tesla T4 GPU running in Americas for 1 Year"] == "Commit1Yr"
    assert usage["Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Americas"] == "OnDemand"
    assert usage["DWS Defined Duration A2 Core running in Americas"] == "OnDemand"
    assert usage["Sole Tenancy Premium for Sole Tenancy Instance Core running in Americas"] == "OnDemand"
    reserved = skus["Reserved Nvidia Tesla A100 80GB GPU in Americas"]["pricingInfo"][0]["pricingExpression"]
    assert reserved["tieredRates"][0]["unitPrice"] == {"currencyCode": "USD", "units": "0", "nanos": 0}
    regional = skus["Regional Balanced PD Capacity in Netherlands"]["pricingInfo"][0]["pricingExpression"]
    assert [tier["startUsageAmount"] for tier in regional["tieredRates"]] == [0, 5]
    assert skus["External IP Charge on a Spot Preemptible VM"]["serviceRegions"] == ["global"]
