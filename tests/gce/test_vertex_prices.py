"""Prices of Vertex AI and Colab Enterprise: recorded rows of bills and of the catalogue, to the last digit.

An a3-highgpu-8g as a custom job and an a3-highgpu-1g under a deployed model, each on demand and by flex-start, with
their SKU ids, prices and sums an hour (bills of 15 and 16 August 2025, published at zenn.dev by google_cloud_jp); an A2
under a deployed model (words of the catalogue, 2026); and Colab Enterprise (words and prices of the catalogue, 2026).
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.gce.test_flex_start_prices import row
from tests.gce.test_prices import pages, served

from costguard.gce.prices import CatalogPrices
from costguard.gce.vertex.machines import shape_of
from costguard.gce.vertex.sku import vertex_resource
from costguard.ledger.billed.machine_parts import parts_of_shape, resource_words
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_gate import judge, units_of
from costguard.ledger.pricing import rate_per_hour
from costguard.model.instance import ProvisioningModel
from costguard.model.managed.machines import ManagedMachines, Seller

NOW = datetime(2026, 11, 20, tzinfo=UTC)
T, P = "Vertex AI: Training/Pipelines", "Vertex AI: Online/Batch Prediction"
STANDARD, FLEX, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.FLEX_START, ProvisioningModel.SPOT
ROWS = (
    ("3F95-001E-B747", f"{T} on NVIDIA H100 80GB in Iowa", "h", "11.2660332"),
    ("2E83-99F1-391A", f"{T} on A3 Instance Core in Iowa", "h", "0.0293227"),
    ("B045-9255-8314", f"{T} on A3 Instance RAM in Iowa", "GiBy.h", "0.0025534"),
    ("5853-505F-A5C4", f"{T} management fee on NVIDIA H100 80GB in Iowa", "h", "1.4694826"),
    ("9AC1-7D9B-C47E", f"{T} management fee on A3 Instance Core in Iowa", "h", "0.0038247"),
    ("D30D-69C9-F057", f"{T} management fee on A3 Instance RAM in Iowa", "GiBy.h", "0.0003331"),
    ("AE9C-DB60-DF46", f"{P} Nvidia H100 80gb GPU running in Iowa", "h", "11.2660332"),
    ("A002-4323-D900", f"{P} A3 Predefined Instance Core running in Iowa", "h", "0.0293227"),
    ("2424-9F04-82A8", f"{P} A3 Predefined Instance Ram running in Iowa", "GiBy.h", "0.0025534"),
    ("1797-967A-274D", f"{P} management fee on NVIDIA H100 80GB in Iowa", "h", "1.4694826"),
    ("9AC1-7D9B-C47F", f"{P} management fee on A3 Instance Core in Iowa", "h", "0.0038247"),
    ("5692-009D-2057", f"{P} management fee on A3 Instance RAM in Iowa", "GiBy.h", "0.0003331"),
    ("7362-581B-29B4", "Vertex Colab N2 CPU usage", "h", "0.0379332"),
    ("9215-A98F-C4CD", "Vertex Colab E2 RAM usage", "GiBy.h", "0.003508236"),
)  # fmt: skip
COMPUTE = (
    (
        "341A-49A5-0C07",
        "Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas",
        "h",
        "4.200761",
    ),
    ("9A32-36B2-7FBC", "DWS Defined Duration A3 Core running in Americas", "h", "0.010934"),
    ("ED19-A584-4A84", "DWS Defined Duration A3 Ram running in Americas", "GiBy.h", "0.000952"),
    ("2303-1D6A-9C08", "DWS Defined Duration SSD backed Local Storage running in Americas", "GiBy.mo", "0.08"),
)  # fmt: skip
DISKS = ("A005-98FE-36CC", f"{T} on SSD backed PD Capacity", "GiBy.mo", "0.1955")
A3, A3_ONE = {"machineType": "a3-highgpu-8g"}, {"machineType": "a3-highgpu-1g"}


@pytest.fixture(scope="module")
def book() -> PriceBook:
    rows = [row(words, "OnDemand", unit, dollars, sku_id=sku_id) for sku_id, words, unit, dollars in (*ROWS, *COMPUTE)]
    disks = row(DISKS[1], "OnDemand", DISKS[2], DISKS[3], region="global", sku_id=DISKS[0])
    with served(pages([*rows, disks])) as (url, _):
        prices = CatalogPrices(url).fetch()
    return PriceBook(prices)


def _hourly(book: PriceBook, seller: Seller, machine: dict[str, Any], model: ProvisioningModel) -> Decimal:
    rate = rate_per_hour(shape_of(seller, machine, 1, model), "us-central1", model, book, NOW)
    assert rate is not None
    return rate.dollars


@pytest.mark.parametrize(
    ("seller", "machine", "model", "dollars"),
    [
        # The sums of the bills without boot disks, whose hour was a 730th of a month, and local SSD likewise.
        (Seller.TRAINING, A3, STANDARD, "101.007352"),
        (Seller.TRAINING, A3, FLEX, "50.8374656"),
        (Seller.PREDICTION, A3_ONE, STANDARD, "12.625919"),
        (Seller.PREDICTION, A3_ONE, FLEX, "6.3546832"),
    ],
)
def test_a_recorded_hour_costs_what_the_bill_says(
    book: PriceBook, seller: Seller, machine: dict[str, Any], model: ProvisioningModel, dollars: str
) -> None:
    """GPUs, vCPUs and memory by the service's SKUs; with a fee, by Compute Engine's and the fee's."""
    local_ssd = Decimal(0)
    if model is FLEX:
        gib = 6000 if machine is A3 else 750
        local_ssd = Decimal("0.08") * gib / (30 * 24 + 1)  # November 2026 has an hour more in California
    assert abs(_hourly(book, seller, machine, model) - local_ssd - Decimal(dollars)) < Decimal("0.000000002")


def test_boot_disks_of_custom_training_cost_the_same_everywhere_by_the_month(book: PriceBook) -> None:
    """2,000 GiB, as in the bill; by the second of the month, whatever it is."""
    shape = shape_of(Seller.TRAINING, A3, 1, STANDARD, {"bootDiskSizeGb": 2000})
    rate = rate_per_hour(shape, "us-central1", STANDARD, book, NOW)
    assert rate is not None
    disks = Decimal("0.1955") * 2000 / 721
    assert abs(rate.dollars - Decimal("101.007352") - disks) < Decimal("0.000000002")
    assert shape.machine_type == "a3-highgpu-8g (Vertex training, 2000 GiB pd-ssd)"


@pytest.mark.parametrize("rows", [ROWS], ids=["recorded"])
def test_each_recorded_sku_prices_one_resource_that_has_words(rows: Any) -> None:
    """Each has a unit that the gate allows, and words that a person reads."""
    resources = [vertex_resource(words.lower()) for _, words, _, _ in rows]
    assert None not in resources
    assert len(set(resources)) == len(rows)
    for resource, (_, _, unit, _) in zip(resources, rows, strict=True):
        assert resource is not None
        assert unit in [one.value for one in units_of(resource)]
    assert resource_words("gpu:nvidia-h100-80gb:vertex-training-fee") == "Fee of Vertex training for H100 80GB GPU"
    assert resource_words("vertex-prediction-a3:core") == "A3 vCPU of Vertex prediction"
    assert resource_words("disk:vertex-training-pd-ssd") == "pd-ssd disk of Vertex training"
    assert resource_words("colab-enterprise-e2:ram") == "E2 memory of Colab Enterprise"


@pytest.mark.parametrize(
    ("words", "resource"),
    [
        (f"{P} Nvidia A100 80gb GPU running in Iowa", "gpu:nvidia-a100-80gb:vertex-prediction"),
        (f"{P} A2 Instance Ram running in Americas", "vertex-prediction-a2:ram"),
        (f"{P} management fee on A2 Instance RAM in Iowa", "vertex-prediction-a2:ram-fee"),
        (f"{T} on N1 Predefined Instance Core running in Iowa", "vertex-training-n1:core"),
        (f"{T} Management fee on E2 Instance RAM in Singapore", "vertex-training-e2:ram-fee"),
        (f"{P} N1 Predefined Instance Core running in Iowa", "vertex-prediction-n1:core"),
        ("Gemini 2.5 Flash Text Input - Predictions", None),
        ("Vertex AI: Something else on A3 Instance Core in Iowa", None),
    ],
)  # fmt: skip
def test_words_of_the_catalogue(words: str, resource: str | None) -> None:
    """Words that others read from the catalogue and from bills; what is no machine of these services has no price."""
    assert vertex_resource(words.lower()) == resource


def test_machines_are_written_and_read_alike() -> None:
    """The text in the place of a machine type says all that prices need."""
    for machines in (
        ManagedMachines(Seller.TRAINING, "a3-highgpu-8g", 4, True, 100, "pd-ssd"),
        ManagedMachines(Seller.PREDICTION, "g2-standard-8"),
        ManagedMachines(Seller.COLAB, "e2-standard-4"),
    ):
        assert ManagedMachines.read(str(machines)) == machines
    assert str(ManagedMachines(Seller.TRAINING, "a3-highgpu-8g", 4, True, 100, "pd-ssd")) == (
        "4 x a3-highgpu-8g (Vertex training with fee, 100 GiB pd-ssd)"
    )
    assert ManagedMachines.read("a3-highgpu-8g") is None


def test_four_machines_cost_four_times_one_and_a_part_of_a_gpu_is_one(book: PriceBook) -> None:
    """The ledger writes all machines together; one is taken out, priced, and multiplied."""
    one, four = (shape_of(Seller.TRAINING, A3, count, STANDARD) for count in (1, 4))
    rates = [rate_per_hour(shape, "us-central1", STANDARD, book, NOW) for shape in (one, four)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[1].nanos == 4 * rates[0].nanos
    sliced = shape_of(Seller.PREDICTION, {"machineType": "g4-standard-12"}, 3, SPOT)
    quantities = {part.resource: part.quantity for part in parts_of_shape(sliced)}
    assert quantities["gpu:nvidia-rtx-pro-6000-1/8:whole"] == 6


def test_the_price_gate_takes_recorded_prices() -> None:
    """The gate refuses none, and a fee has no Spot price that could be too dear."""
    rows = [row(words, "OnDemand", unit, dollars, sku_id=sku_id) for sku_id, words, unit, dollars in (*ROWS, DISKS)]
    with served(pages(rows)) as (url, _):
        prices = CatalogPrices(url).fetch()
    assert {price.key.provisioning_model for price in prices} == {STANDARD}
    assert [judge(price, None, None, NOW) for price in prices] == [None] * len(rows)
