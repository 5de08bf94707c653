"""The shipped prices of Vertex AI and Colab Enterprise, against bills, pages and rows that others published."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from costguard.gce.machine_types import by_rule
from costguard.gce.prices import ESTIMATED, snapshot_prices
from costguard.gce.vertex import estimates
from costguard.gce.vertex.estimates import vertex_estimates
from costguard.gce.vertex.machines import shape_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_gate import judge
from costguard.ledger.pricing import rate_per_hour
from costguard.model.instance import ProvisioningModel
from costguard.model.managed.machines import Seller
from costguard.model.money import Money
from costguard.model.price import EVERYWHERE, Price, PriceKey

STANDARD, FLEX, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.FLEX_START, ProvisioningModel.SPOT
NOW, REGION = datetime(2026, 11, 22, tzinfo=UTC), "us-central1"
A3, A3_ONE, N1 = ({"machineType": name} for name in ("a3-highgpu-8g", "a3-highgpu-1g", "n1-standard-4"))
T4 = {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
FILE = Path(estimates.__file__).with_name("price_snapshot.toml")
SHARED = Path(__file__).resolve().parents[3] / "shared/gcp-2026.md"


@pytest.fixture(scope="module")
def shipped() -> tuple[Price, ...]:
    return snapshot_prices()


@pytest.fixture(scope="module")
def book(shipped: tuple[Price, ...]) -> PriceBook:
    return PriceBook(shipped)


@pytest.mark.parametrize(
    ("seller", "machine", "model", "dollars"),
    [
        # Bills of August 2025 without boot disks and local SSD, whose hours were a 730th of a month.
        (Seller.TRAINING, A3, STANDARD, "101.007352"),
        (Seller.TRAINING, A3, FLEX, "50.8374656"),
        (Seller.PREDICTION, A3_ONE, STANDARD, "12.625919"),
        (Seller.PREDICTION, A3_ONE, FLEX, "6.3546832"),
        # Google's page of prices, 2026.
        (Seller.TRAINING, N1, STANDARD, "0.21849885"),
        (Seller.TRAINING, N1 | T4, STANDARD, "0.62099885"),
    ],
)
def test_a_published_hour_is_priced_before_any_catalogue_was_read(
    book: PriceBook, seller: Seller, machine: dict[str, Any], model: ProvisioningModel, dollars: str
) -> None:
    """The rate agrees to the last digit given, also where Compute Engine's shipped prices are a part of it."""
    shape = shape_of(seller, machine, 1, model)
    rate = rate_per_hour(shape, REGION, model, book, NOW)
    assert rate is not None
    ssd = book.at(PriceKey("local-ssd", REGION, model), NOW)
    assert ssd is not None
    with_ssd = Decimal(shape.local_ssd_gib) * Money(ssd.rate_nanos).dollars / 721 if model is FLEX else Decimal(0)
    assert abs(rate.dollars - with_ssd - Decimal(dollars)) < Decimal("0.000000002")


def test_the_share_of_compute_engines_prices_gives_every_recorded_figure() -> None:
    """Each of 18 figures is met to its last digit, so the rest is estimated so."""
    compute = [price for price in snapshot_prices() if ESTIMATED not in price.source and _is_of_compute(price)]
    made = {key: nanos for key, nanos, _ in vertex_estimates(compute)}
    figures = tomllib.loads(FILE.read_text("utf-8"))["figures"]
    assert len(figures) == 18
    for figure in figures:
        ((place, dollars),) = figure["standard"].items()
        estimate = Money(made[PriceKey(figure["resource"], place, STANDARD)]).dollars
        digits = Decimal(dollars).as_tuple().exponent
        assert round(estimate, -int(digits)) == Decimal(dollars), figure["resource"]


def _is_of_compute(price: Price) -> bool:
    return not any(seller.mark in price.key.resource for seller in Seller)


@pytest.mark.parametrize("seller", Seller)
@pytest.mark.parametrize("gpu", [{}, T4], ids=["n1", "t4"])
def test_machines_without_a_recorded_price_have_an_estimate(
    book: PriceBook, seller: Seller, gpu: dict[str, Any]
) -> None:
    """A forgotten notebook has a price in the first report, which says that it is estimated."""
    rate = rate_per_hour(shape_of(seller, N1 | gpu, 1, STANDARD), "europe-west4", STANDARD, book, NOW)
    assert rate is not None
    price = book.at(PriceKey(f"gpu:nvidia-tesla-t4:{seller.mark}", "europe-west4", STANDARD), NOW)
    assert price is not None
    assert price.source.endswith(ESTIMATED)
    assert price.is_shipped
    percent = 120 if seller is Seller.COLAB else 115
    assert price.rate_nanos == 367_500_000 * percent // 100


def test_recorded_prices_are_no_estimates_and_no_key_has_two(shipped: tuple[Price, ...]) -> None:
    """TPUs are left out: no price of them is recorded."""
    keys = [price.key for price in shipped]
    assert len(set(keys)) == len(keys)
    (h100,) = [
        price for price in shipped if price.key == PriceKey("gpu:nvidia-h100-80gb:vertex-training", REGION, STANDARD)
    ]
    assert (h100.rate_nanos, h100.source) == (11_266_033_200, "snapshot 2026-11-29")
    assert not [price for price in shipped if price.key.resource.startswith(("gpu:v5e:vertex", "gpu:v6e:vertex"))]
    (disk,) = [price for price in shipped if price.key.resource == "disk:vertex-training-pd-ssd"]
    assert (disk.key.region, disk.rate_nanos) == (EVERYWHERE, 195_500_000)


def test_the_price_gate_takes_all_of_them(shipped: tuple[Price, ...]) -> None:
    """No shipped price is refused at a first start."""
    assert {judge(price, None, None, NOW) for price in shipped} == {None}


@pytest.mark.skipif(not SHARED.exists(), reason="the facts about Google (shared/gcp-2026.md) are not here")
def test_the_notes_of_recorded_prices_agree(shipped: tuple[Price, ...]) -> None:
    """The notes have the SKUs on demand of an H100 and its host, and the fee."""
    notes = SHARED.read_text("utf-8")
    by_resource = {price.key.resource: price for price in shipped if price.key.region == REGION}
    for resource, text in (
        ("gpu:nvidia-h100-80gb:vertex-training", "H100 11.2660332"),
        ("vertex-training-a3:core", "cores .0293227"),
        ("vertex-training-a3:ram", "memory .0025534"),
        ("gpu:nvidia-h100-80gb:vertex-training-fee", "H100 1.4694826"),
    ):
        assert text in notes
        assert Money(by_resource[resource].rate_nanos).dollars == Decimal(text.split()[1])


def test_the_host_of_the_published_machine_is_read_by_its_name() -> None:
    """The sums above rest on 208 vCPUs and 1,872 GiB, as the bill has them."""
    machine = by_rule("a3-highgpu-8g")
    assert machine is not None
    assert (machine.vcpus, machine.memory_mib) == (208, 1872 * 1024)
